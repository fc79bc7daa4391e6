/* report_style.c - the style sheet and the script of a report, and the policy that lets the page load nothing else.
 * Each is an array of lines, since ISO C promises no literal of more than 4095 characters. */
#include "../base/fail.h"
#include "report_parts.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const char *const colours[] = {
    "/* --k0 to --k6: readers without one kind of cones tell these apart too, as tests/e2e/page.py computes. */\n",
    ":root {\n",
    "    color-scheme: light dark;\n",
    "    --page: #fdfdfb; --ink: #1d1f21; --soft: #565a60; --rule: #dddcd6; --wash: #f3f2ee;\n",
    "    --link: #0b5a9e; --bad: #b3261e; --band: #e4e8ec;\n",
    "    --k0: #004ac3; --k1: #e16d14; --k2: #009d75; --k3: #842673; --k4: #624511; --k5: #0e1016; --k6: #4390d3;\n",
    "    --kx: #8a8d91;\n",
    "}\n",
    "@media (prefers-color-scheme: dark) {\n",
    "    :root {\n",
    "        --page: #15171a; --ink: #e8e6e1; --soft: #a8adb4; --rule: #34383d; --wash: #1e2125;\n",
    "        --link: #84bdf2; --bad: #ff9184; --band: #2b3138;\n",
    "        --k0: #55a0f2; --k1: #d86c31; --k2: #55e893; --k3: #c384a5; --k4: #fdf03a; --k5: #effcff;\n",
    "        --k6: #5263fb; --kx: #868b91;\n",
    "    }\n",
    "}\n",
    NULL,
};

static const char *const layout[] = {
    "* { box-sizing: border-box; }\n",
    "html { background: var(--page); color: var(--ink); }\n",
    "body {\n",
    "    max-width: 72rem; margin: 0 auto; padding: 2.5rem clamp(1rem, 4vw, 3rem) 4rem;\n",
    "    font: 1rem/1.55 system-ui, -apple-system, \"Segoe UI\", \"Noto Sans\", \"Liberation Sans\", sans-serif;\n",
    "    font-variant-numeric: tabular-nums; overflow-wrap: anywhere;\n",
    "}\n",
    "h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; font-weight: 650; letter-spacing: -.01em; }\n",
    "h2 { font-size: 1.3rem; line-height: 1.3; margin: 3.5rem 0 1rem; padding-top: .8rem;\n",
    "    border-top: 1px solid var(--rule); }\n",
    "h3 { font-size: 1rem; line-height: 1.4; margin: 0; }\n",
    "p { margin: .4rem 0; max-width: 46rem; }\n",
    "a { color: var(--link); text-underline-offset: .15em; }\n",
    "code, pre { font: .86em/1.5 ui-monospace, \"SF Mono\", Menlo, Consolas, \"Liberation Mono\", monospace; }\n",
    ":focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }\n",
    "main:focus { outline: none; }\n",
    ".skip { position: absolute; left: -999rem; }\n",
    ".skip:focus { position: static; }\n",
    ".lead { font-size: 1.15rem; max-width: 62rem; }\n",
    ".files, .messages { list-style: none; padding: 0; margin: .6rem 0; color: var(--soft); }\n",
    ".files b, .messages { color: var(--ink); }\n",
    "nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; list-style: none; padding: 0; margin: 1.2rem 0 0; }\n",
    "footer { margin-top: 4rem; border-top: 1px solid var(--rule); color: var(--soft); font-size: .85rem; }\n",
    "\n",
    ".scroll { overflow-x: auto; max-width: 100%; }\n",
    ".figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 31rem), 1fr));\n",
    "    gap: 2.2rem 2rem; }\n",
    ".wide { grid-column: 1 / -1; }\n",
    "figure { margin: 0; min-width: 0; max-width: 44rem; break-inside: avoid; }\n",
    "figcaption p { font-size: .88rem; line-height: 1.45; color: var(--soft); min-height: 2.9em; }\n",
    "\n",
    "table { border-collapse: collapse; font-size: .86rem; line-height: 1.35; }\n",
    "caption { text-align: left; color: var(--soft); padding: 0 0 .7rem; max-width: 52rem; font-size: .88rem; }\n",
    "caption:empty { display: none; }\n",
    "th, td { padding: .34rem .8rem .34rem 0; text-align: left; vertical-align: baseline; white-space: nowrap;\n",
    "         border-bottom: 1px solid var(--rule); unicode-bidi: isolate; }\n",
    "th { font-weight: 600; }\n",
    "tbody th { font-weight: 400; }\n",
    "thead th { border-bottom: 1.5px solid var(--ink); vertical-align: bottom; }\n",
    "th.n, td.n { text-align: right; }\n",
    "td:last-child { padding-right: .2rem; }\n",
    "tbody tr:hover { background: var(--wash); }\n",
    ".bad { color: var(--bad); font-weight: 650; }\n",
    ".dim { color: var(--soft); }\n",
    ".facts td { white-space: normal; min-width: 12rem; }\n",
    "th button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;\n",
    "    text-align: inherit; }\n",
    "th button:hover { text-decoration: underline; }\n",
    "th button::after { content: \"\\2195\"; content: \"\\2195\" / \"\"; color: var(--soft); font-weight: 400; }\n",
    "th button::after { padding-left: .25em; }\n",
    "th[aria-sort=ascending] button::after { content: \"\\2191\"; content: \"\\2191\" / \"\"; color: var(--ink); }\n",
    "th[aria-sort=descending] button::after { content: \"\\2193\"; content: \"\\2193\" / \"\"; color: var(--ink); }\n",
    ".drawings th, .drawings td { vertical-align: middle; padding-top: .2rem; padding-bottom: .2rem; }\n",
    "th.key { border-bottom: 4px solid var(--k); }\n",
    "pre { background: var(--wash); padding: 1rem; margin: .6rem 0; white-space: pre; overflow-wrap: normal; }\n",
    "summary { cursor: pointer; color: var(--soft); }\n",
    "\n",
    "svg { display: block; width: 100%; min-width: 32rem; height: auto; overflow: visible; }\n",
    "svg.strip { width: 15rem; min-width: 15rem; height: auto; }\n",
    NULL,
};

static const char *const drawing[] = {
    "svg { font-size: 12px; fill: var(--ink); }\n",
    ".tick { fill: var(--soft); } .name { fill: var(--ink); } \n",
    ".note { fill: var(--ink); font-size: 11px; stroke: var(--page); stroke-width: 3px; paint-order: stroke; }\n",
    ".end { text-anchor: end; } .mid { text-anchor: middle; }\n",
    ".grid { stroke: var(--rule); fill: none; } .axis { stroke: var(--soft); fill: none; }\n",
    ".floor { stroke: var(--soft); stroke-dasharray: 1 3; fill: none; }\n",
    ".mark { stroke: var(--soft); stroke-width: 1.4; }\n",
    ".roof { stroke: var(--ink); stroke-width: 1.3; fill: none; }\n",
    "svg .lead { stroke: var(--rule); fill: none; }\n",
    ".k0 { --k: var(--k0); } .k1 { --k: var(--k1); } .k2 { --k: var(--k2); } .k3 { --k: var(--k3); }\n",
    ".k4 { --k: var(--k4); } .k5 { --k: var(--k5); } .k6 { --k: var(--k6); } .kx { --k: var(--kx); }\n",
    ".m { fill: var(--k); stroke: var(--page); stroke-width: .8; }\n",
    ".mh { fill: var(--page); stroke: var(--k); stroke-width: 1.8; }\n",
    ".ms { fill: none; stroke: var(--k); stroke-width: 2.2; }\n",
    ".l { fill: none; stroke: var(--k); stroke-width: 1.6; stroke-linejoin: round; }\n",
    ".d1 { stroke-dasharray: 7 3; } .d2 { stroke-dasharray: 2 3; } .d3 { stroke-dasharray: 8 3 2 3; }\n",
    ".f { fill: var(--k); } .band { fill: var(--band); }\n",
    ".bar { stroke: var(--k0); stroke-width: 2; } .far { stroke: var(--k1); stroke-width: 2; }\n",
    ".middle { stroke: var(--ink); }\n",
    NULL,
};

static const char *const print[] = {
    "@media print {\n",
    "    :root {\n",
    "        color-scheme: light;\n",
    "        --page: #fff; --ink: #000; --soft: #444; --rule: #ccc; --wash: #fff; --link: #000;\n",
    "        --bad: #8c1d18; --band: #e4e8ec;\n",
    "        --k0: #004ac3; --k1: #e16d14; --k2: #009d75; --k3: #842673; --k4: #624511; --k5: #0e1016;\n",
    "        --k6: #4390d3; --kx: #8a8d91;\n",
    "    }\n",
    "    @page { margin: 15mm; }\n",
    "    @page broad { size: landscape; }\n",
    "    #runs { page: broad; } #runs td:last-child { min-width: 9em; }\n",
    "    body { max-width: none; padding: 0; font-size: 9.5pt; }\n",
    "    nav, .skip { display: none; }\n",
    "    h2, h3 { break-after: avoid; } tr { break-inside: avoid; }\n",
    "    .scroll { overflow: visible; }\n",
    "    table { font-size: 6.3pt; }\n",
    "    th, td { white-space: normal; overflow-wrap: break-word; padding: .15rem .3rem .15rem 0; }\n",
    "    td.n { white-space: nowrap; } h2 { margin-top: 1.5rem; }\n",
    "    th button { display: contents; } th button::after { content: none; }\n",
    "    svg { min-width: 0; } svg.strip { width: 9rem; min-width: 0; }\n",
    "    pre { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0; }\n",
    "    .figures { grid-template-columns: 1fr 1fr; }\n",
    "    details::details-content { content-visibility: visible; block-size: auto; }\n",
    "}\n",
    NULL,
};

static const char *const script[] = {
    "'use strict';\n",
    "/* Headings of tables become buttons that sort: by data-v, else as texts; empty cells come last. */\n",
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
    "addEventListener('beforeprint', () => {\n",
    "    for (const part of document.querySelectorAll('details')) part.open = true;\n",
    "});\n",
    NULL,
};

/* Of a plot that is no part of a page. */
static const char *const alone[] = {
    "svg { font-family: system-ui, -apple-system, \"Segoe UI\", \"Noto Sans\", \"Liberation Sans\", sans-serif;\n",
    "    background: var(--page); }\n",
    NULL,
};
/* clang-format on */

static const char *const *const page_style[] = {colours, layout, drawing, print, NULL};
static const char *const *const plot_style[] = {colours, drawing, alone, NULL};
static const char *const *const page_script[] = {script, NULL};

static char *joined(const char *const *const parts[]) {
    char *text = NULL;
    size_t length;
    FILE *memory = must_stream(&text, &length);
    for (int part = 0; parts[part]; part++)
        for (int i = 0; parts[part][i]; i++) fputs(parts[part][i], memory);
    fclose(memory);
    return text;
}

static void write_element(const char *name, const char *const *const parts[], FILE *to) {
    char *text = joined(parts);
    fprintf(to, "<%s>%s</%s>\n", name, text, name);
    free(text);
}

void report_style(FILE *to) {
    write_element("style", page_style, to);
}

void report_plot_style(FILE *to) {
    write_element("style", plot_style, to);
}

void report_script(FILE *to) {
    write_element("script", page_script, to);
}

/* 'sha256-...' in base64, as a policy names what may be on the page. */
static void write_hash(const char *const *const parts[], FILE *to) {
    unsigned char digest[EVP_MAX_MD_SIZE] = {0}, base64[2 * EVP_MAX_MD_SIZE];
    char *text = joined(parts);
    unsigned length = 0;
    if (!EVP_Digest(text, strlen(text), digest, &length, EVP_sha256(), NULL)) must_have(NULL);
    EVP_EncodeBlock(base64, digest, (int)length);
    fprintf(to, "'sha256-%s'", (const char *)base64);
    free(text);
}

void report_policy(FILE *to) {
    fputs("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; "
          "form-action 'none'; style-src ",
          to);
    write_hash(page_style, to);
    fputs("; script-src ", to);
    write_hash(page_script, to);
    fputs("\">\n", to);
}
