"""The looks of the page: light and dark, narrow and wide, screen and paper."""

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #59606c; --paper: #fff; --line: #d8dce2; --tint: #f4f6f8;
        --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a3abb7; --paper: #16181c; --line: #353a42; --tint: #1f2329; --link: #7db7f5; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
header p { margin: .4rem 0; max-width: 46rem; }
nav { margin: 1rem 0; padding: .5rem 0; border-block: 1px solid var(--line); }
nav a { display: inline-block; margin-right: 1rem; padding: .15rem 0; color: var(--link); text-decoration: none; }
nav a:hover { text-decoration: underline; }
pre { background: var(--tint); padding: .6rem .8rem; border-radius: .4rem; overflow-x: auto; overflow-wrap: normal;
      font-size: .9rem; }
figure { margin: 1rem 0 2rem; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 46rem; margin-top: .4rem; }
img { display: block; max-width: 100%; height: auto; padding: .4rem; background: #fff; border-radius: .4rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem;
        overflow-wrap: normal; }
th, td { padding: .3rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; }
tbody th { font-weight: 400; }
th:first-child { position: sticky; left: 0; background: var(--paper); text-align: left; padding-left: 0;
                 white-space: normal; min-width: 6rem; max-width: 14rem; }
b { font-weight: 700; }
details { margin: .6rem 0; }
summary { cursor: pointer; color: var(--soft); padding: .2rem 0; }
details td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  h1 { font-size: 1.35rem; }
  th, td { padding: .3rem .5rem; }
  th:first-child { max-width: 8.5rem; }
}
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --tint: #f4f4f4; }
  body { max-width: none; padding: 0; font-size: 11pt; }
  nav { display: none; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  th, td { padding: .15rem .35rem; }
  th:first-child { position: static; }
  figure, tr, pre { break-inside: avoid; }
  h2 { break-after: avoid; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
