"""The style and the script of an HTML report, and the policy that lets the browser use these two and nothing else."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#59636e;--line:#d1d9e0;--soft:#f4f6f8;--bar:#3b76c4;--ink:#1b1f24;
--good:#16702f;--bad:#b3202c;--warn:#8a5700;--agent:#e8f0fb;--user:#f1f1ee}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e3e8ee;--dim:#9aa5b1;--line:#363d46;--soft:#1d2228;--bar:#3f73b5;--ink:#f2f5f8;
--good:#5cc97a;--bad:#ff8088;--warn:#e7b04b;--agent:#1c2b3f;--user:#24282d}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--bg);color:var(--fg);font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.5rem;margin:.4rem 0}h2{font-size:1.2rem;margin:2rem 0 .6rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1.2rem 0 .4rem}h1,h2,h3,dd,p,li,summary,.say{overflow-wrap:anywhere}
a{color:inherit}.dim{color:var(--dim)}.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.foreign,.say{white-space:pre-wrap;unicode-bidi:plaintext}
.passed{color:var(--good)}.failed,.unreadable{color:var(--bad)}.stalled,.not-run,.pending{color:var(--warn)}.no-verdict{color:var(--dim)}
.verdict{font-weight:600;white-space:nowrap}
.warnings{border-left:4px solid var(--warn);background:var(--soft);padding:.5rem 1rem;margin:1rem 0}.warnings p{margin:.3rem 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:1rem 0}
.tile{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem}
.tile b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}.tile span{color:var(--dim);font-size:.85rem}
.rates{display:grid;grid-template-columns:minmax(8rem,16rem) 1fr 17.5rem;gap:.35rem .8rem;align-items:center}
.rates .figure{font-variant-numeric:tabular-nums;font-size:.9rem}
svg.bar{display:block;width:100%;height:18px;overflow:visible}.track{fill:var(--soft);stroke:var(--line)}
.fill{fill:var(--bar)}
.whisker{stroke:var(--ink);stroke-width:1.5}
svg.histogram{display:block;width:100%;min-width:30rem;height:auto}.histogram text{fill:var(--dim);font:12px system-ui,sans-serif}
.count{fill:var(--bar)}.axis{stroke:var(--dim)}.mark{stroke:var(--fg);stroke-dasharray:4 3}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.3rem .55rem;border-bottom:1px solid var(--line);vertical-align:top}
th{white-space:nowrap}td:first-child{min-width:11rem;overflow-wrap:anywhere}
th.num{text-align:right}th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid var(--bar)}
th[aria-sort=ascending] button::after{content:" \\25B2"}th[aria-sort=descending] button::after{content:" \\25BC"}
details{border:1px solid var(--line);border-radius:6px;margin:.4rem 0;padding:0 .8rem}details[open]{padding-bottom:.8rem}
summary{cursor:pointer;padding:.45rem 0}summary .verdict{margin-right:.6rem}
.say{max-width:46rem;margin:.3rem 0;padding:.35rem .6rem;border-radius:6px;background:var(--user)}
.say.agent{background:var(--agent);margin-left:1.5rem}
.say .dim{unicode-bidi:isolate;font-size:.8rem;display:block}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.2rem 1rem;margin:.5rem 0}dt{color:var(--dim)}dd{margin:0}
ul{margin:.3rem 0;padding-left:1.2rem}
@media(max-width:40rem){.rates{grid-template-columns:1fr}.rates svg{margin-bottom:0}.rates .figure{margin-bottom:.7rem}
.say.agent{margin-left:.6rem}dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{details{break-inside:avoid}}
"""

SCRIPT = """
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending", sign = down ? -1 : 1;
      const key = row => row.cells[column].dataset.v ?? row.cells[column].textContent;
      const number = head.classList.contains("num");
      const compare = (a, b) => number ? key(a) - key(b) : key(a).localeCompare(key(b));
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
      heads.forEach(each => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
    });
  });
}
const open = () => {
  const target = /^#s\\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
  if (target) { target.closest("details").open = true; target.scrollIntoView(); }
};
addEventListener("hashchange", open);
open();
"""


def policy() -> str:
    """The content security policy: this style and this script by their hashes, nothing from anywhere, no form, no frame."""
    return f"default-src 'none'; style-src '{_hash(STYLE)}'; script-src '{_hash(SCRIPT)}'; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
