/* style.c - writes the style sheet and the script of a report, and the policy that lets the page load nothing else.
 * Each is an array of lines, because ISO C guarantees only 4095 characters in a literal. */
#include "../base/fail.h"
#include "report_parts.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

// clang-format off
/* The part of the style sheet that plots in a file of their own need too. Printed pages are light. */
static const char *const drawing[] = {
    "/* Colour-blind readers can distinguish --k0 to --k6 too, as tests/e2e/page.py computes. */\n",
    ":root {\n",
    "    --page: #fdfdfb; --ink: #1d1f21; --soft: #565a60; --rule: #dddcd6; --wash: #f3f2ee;\n",
    "    --link: #0b5a9e; --bad: #b3261e; --band: #e4e8ec;\n",
    "    --k0: #004ac3; --k1: #e16d14; --k2: #009d75; --k3: #842673; --k4: #624511; --k5: #0e1016; --k6: #4390d3;\n",
    "    --k7: #8a8d91;\n",
    "}\n",
    "@media screen and (prefers-color-scheme: dark) {\n",
    "    :root {\n",
    "        --page: #15171a; --ink: #e8e6e1; --soft: #a8adb4; --rule: #34383d; --wash: #1e2125;\n",
    "        --link: #84bdf2; --bad: #ff9184; --band: #2b3138;\n",
    "        --k0: #55a0f2; --k1: #d86c31; --k2: #55e893; --k3: #c384a5; --k4: #fdf03a; --k5: #effcff;\n",
    "        --k6: #5263fb; --k7: #868b91;\n",
    "    }\n",
    "}\n",
    "svg { font: 12px system-ui, \"Segoe UI\", \"Noto Sans\", \"Liberation Sans\", sans-serif; fill: var(--ink);\n",
    "    background: var(--page); }\n",
    ".tick { fill: var(--soft); } .end { text-anchor: end; } .mid { text-anchor: middle; }\n",
    ".note { font-size: 11px; stroke: var(--page); stroke-width: 3px; paint-order: stroke; }\n",
    ".grid, .lead { stroke: var(--rule); fill: none; } .axis { stroke: var(--soft); fill: none; }\n",
    ".floor { stroke: var(--soft); stroke-dasharray: 1 3; fill: none; }\n",
    ".mark { stroke: var(--soft); stroke-width: 1.4; } .roof { stroke: var(--ink); stroke-width: 1.3; }\n",
    ".k0 { --k: var(--k0); } .k1 { --k: var(--k1); } .k2 { --k: var(--k2); } .k3 { --k: var(--k3); }\n",
    ".k4 { --k: var(--k4); } .k5 { --k: var(--k5); } .k6 { --k: var(--k6); } .k7 { --k: var(--k7); }\n",
    ".m { fill: var(--k); stroke: var(--page); stroke-width: .8; }\n",
    ".mh { fill: var(--page); stroke: var(--k); stroke-width: 1.8; }\n",
    ".ms { fill: none; stroke: var(--k); stroke-width: 2.2; }\n",
    ".l { fill: none; stroke: var(--k); stroke-width: 1.6; stroke-linejoin: round; }\n",
    ".d1 { stroke-dasharray: 7 3; } .d2 { stroke-dasharray: 2 3; } .d3 { stroke-dasharray: 8 3 2 3; }\n",
    NULL,
};

static const char *const layout[] = {
    ":root { color-scheme: light dark; } * { box-sizing: border-box; }\n",
    "html { background: var(--page); color: var(--ink); }\n",
    "body { max-width: 80rem; margin: 0 auto; padding: 2.5rem clamp(1rem, 3vw, 3rem) 4rem;\n",
    "    font: 1rem/1.55 system-ui, \"Segoe UI\", \"Noto Sans\", \"Liberation Sans\", sans-serif;\n",
    "    font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }\n",
    "h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }\n",
    "h2 { font-size: 1.3rem; margin: 3rem 0 1rem; padding-top: .8rem; border-top: 1px solid var(--rule); }\n",
    "h3 { font-size: 1rem; line-height: 1.4; margin: 0; }\n",
    "p { margin: .4rem 0; max-width: 46rem; }\n",
    "a { color: var(--link); text-underline-offset: .15em; }\n",
    "code, pre { font: .86em/1.5 ui-monospace, Menlo, Consolas, \"Liberation Mono\", monospace; }\n",
    "pre { background: var(--wash); padding: 1rem; margin: .6rem 0; white-space: pre-wrap; }\n",
    ":focus-visible { outline: 2px solid var(--link); outline-offset: 2px; } main:focus { outline: none; }\n",
    ".skip { position: absolute; left: -999rem; } .skip:focus { position: static; }\n",
    "p.lead { font-size: 1.15rem; max-width: 62rem; }\n",
    ".files, .messages { list-style: none; padding: 0; margin: .6rem 0; color: var(--soft); }\n",
    ".files b, .messages { color: var(--ink); }\n",
    "nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; list-style: none; padding: 0; }\n",
    "footer { margin-top: 4rem; border-top: 1px solid var(--rule); color: var(--soft); font-size: .85rem; }\n",
    ".scroll { overflow-x: auto; max-width: 100%; }\n",
    ".figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr)); gap: 2rem; }\n",
    ".wide { grid-column: 1 / -1; }\n",
    "figure { margin: 0; min-width: 0; max-width: 34rem; break-inside: avoid; }\n",
    "figcaption p { font-size: .88rem; line-height: 1.45; color: var(--soft); min-height: 2.9em; }\n",
    "svg.plot { display: block; width: 100%; height: auto; overflow: visible; }\n",
    "svg.strip { display: block; width: 15rem; height: auto; }\n",
    ".band { fill: var(--band); } .s { fill: none; stroke: var(--k); stroke-width: 3; }\n",
    ".middle { stroke: var(--ink); stroke-width: .7; }\n",
    "table { border-collapse: collapse; font-size: .86rem; line-height: 1.35; }\n",
    "caption { text-align: left; color: var(--soft); padding: 0 0 .7rem; max-width: 52rem; font-size: .88rem; }\n",
    "caption:empty { display: none; }\n",
    "th, td { padding: .34rem .8rem .34rem 0; text-align: left; vertical-align: baseline; white-space: nowrap;\n",
    "    border-bottom: 1px solid var(--rule); unicode-bidi: isolate; }\n",
    "th { font-weight: 600; } tbody th { font-weight: 400; }\n",
    "thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }\n",
    "th.n, td.n { text-align: right; }\n",
    "tbody tr:hover { background: var(--wash); }\n",
    ".bad { color: var(--bad); font-weight: 650; }\n",
    ".facts td { white-space: normal; min-width: 12rem; }\n",
    "th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }\n",
    "th button:hover { text-decoration: underline; }\n",
    "th button::after { content: \" \\2195\"; content: \" \\2195\" / \"\"; color: var(--soft); font-weight: 400; }\n",
    "th[aria-sort=ascending] button::after { content: \" \\2191\"; content: \" \\2191\" / \"\"; color: var(--ink); }\n",
    "th[aria-sort=descending] button::after { content: \" \\2193\"; content: \" \\2193\" / \"\"; "
        "color: var(--ink); }\n",
    "/* On a narrow screen nothing is cut: a row is a block, a cell brings its heading. */\n",
    "@media screen and (max-width: 44rem) {\n",
    "    table, tbody, caption, td, tbody th { display: block; } thead { display: none; }\n",
    "    tbody tr { display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: .5rem 0; "
        "border-bottom: 1px solid var(--rule); }\n",
    "    td, tbody th { border: 0; padding: 0; white-space: normal; min-width: 0; }\n",
    "    td:empty { display: none; } tbody th { width: 100%; font-weight: 600; }\n",
    "    td.drawn { width: 100%; } td::before { content: attr(data-h) \" \"; color: var(--soft); font-weight: 400; }\n",
    "}\n",
    "@media print {\n",
    "    @page { margin: 15mm; } @page broad { size: landscape; } #runs { page: broad; }\n",
    "    body { max-width: none; padding: 0; font-size: 9.5pt; } nav, .skip { display: none; }\n",
    "    h2, h3 { break-after: avoid; } tr { break-inside: avoid; } .scroll { overflow: visible; }\n",
    "    table { font-size: 6.3pt; } td.n { white-space: nowrap; } h2 { margin-top: 1.5rem; }\n",
    "    th, td { white-space: normal; overflow-wrap: break-word; padding: .15rem .3rem .15rem 0; }\n",
    "    th button { display: contents; } th button::after { content: none; } svg.strip { width: 9rem; }\n",
    "    .figures { grid-template-columns: 1fr 1fr; }\n",
    "}\n",
    NULL,
};

/* Headings of tables become buttons that sort: by data-v, else as texts; empty cells come last. */
static const char *const script[] = {
    "'use strict';\n",
    "const value = (row, column) => {\n",
    "    const cell = row.cells[column];\n",
    "    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim();\n",
    "};\n",
    "const compare = (a, b, way) => {\n",
    "    if (a === '' || b === '') return (a === '') - (b === '');\n",
    "    if (typeof a === 'number' && typeof b === 'number') return way * (a - b);\n",
    "    return way * String(a).localeCompare(String(b), 'en', {numeric: true});\n",
    "};\n",
    "for (const table of document.querySelectorAll('table.sortable')) {\n",
    "    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];\n",
    "    heads.forEach((head, column) => {\n",
    "        if (head.classList.contains('drawn')) return;\n",
    "        const button = document.createElement('button');\n",
    "        button.type = 'button';\n",
    "        button.title = 'Sort by ' + head.textContent;\n",
    "        button.append(...head.childNodes);\n",
    "        head.append(button);\n",
    "        button.addEventListener('click', () => {\n",
    "            const way = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;\n",
    "            for (const other of heads) other.removeAttribute('aria-sort');\n",
    "            head.setAttribute('aria-sort', way > 0 ? 'ascending' : 'descending');\n",
    "            const rows = [...body.rows].map(row => ({row, value: value(row, column)}));\n",
    "            rows.sort((a, b) => compare(a.value, b.value, way));\n",
    "            body.append(...rows.map(entry => entry.row));\n",
    "        });\n",
    "    });\n",
    "}\n",
    NULL,
};
// clang-format on

/* Joins the lines of one or two arrays (`other` may be NULL). The caller frees. */
static char *joined(const char *const *one, const char *const *other) {
    char *text = NULL;
    for (; *one; one++) must_append(&text, "%s", *one);
    for (; other && *other; other++) must_append(&text, "%s", *other);
    return text;
}

char *report_plot_style(void) {
    return joined(drawing, NULL);
}

void report_style(FILE *to) {
    OWNED char *text = joined(drawing, layout);
    fprintf(to, "<style>%s</style>\n", text);
}

void report_script(FILE *to) {
    OWNED char *text = joined(script, NULL);
    fprintf(to, "<script>%s</script>\n", text);
}

/* Writes the hash of joined lines, 'sha256-...' in base64, by which the policy permits them. */
static void write_hash(const char *const *one, const char *const *other, FILE *to) {
    OWNED char *text = joined(one, other);
    unsigned char digest[EVP_MAX_MD_SIZE] = {0}, base64[2 * EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (!EVP_Digest(text, strlen(text), digest, &length, EVP_sha256(), NULL)) must_have(NULL);
    EVP_EncodeBlock(base64, digest, (int)length);
    fprintf(to, "'sha256-%s'", (const char *)base64);
}

void report_policy(FILE *to) {
    fputs("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
          "form-action 'none'; style-src ",
          to);
    write_hash(drawing, layout, to);
    fputs("; script-src ", to);
    write_hash(script, NULL, to);
    fputs("\">\n", to);
}
