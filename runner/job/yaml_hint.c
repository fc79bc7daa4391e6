/* yaml_hint.c - how to mend what is not YAML, or not what is expected. */
#include "yaml_parts.h"

#include "../base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Skips a key at the beginning of a text. NULL: the text begins with none. */
static const char *skip_key(const char *text) {
    text += strspn(text, " -");
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return word > 0 ? text + word : NULL;
}

bool yaml_lacks_space(const char *text) {
    const char *behind = skip_key(text);
    return behind && behind[0] == ':' && behind[1] > ' ';
}

bool yaml_has_wide_colon(const char *text) {
    const char *behind = skip_key(text);
    return behind && strncmp(behind, "\uff1a", 3) == 0;
}

const char *yaml_value_hint(const char *text, const char *expected) {
    if (strcmp(expected, "a list") == 0) return ": put it in [ ]";
    bool computes = strpbrk(text, "*/(") || strstr(text, " if ") ||
                    (isdigit((unsigned char)*text) && strpbrk(text + strspn(text, ".0123456789"), "+-"));
    if (strcmp(expected, "true or false") != 0)
        return computes ? ": `parameters` computes, without quotes: `m: $n * 2`" : "";
    static const char *const words[][2] = {{"yes", "no"}, {"on", "off"}, {"y", "n"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i][0]) == 0) return ": write true";
        if (strcasecmp(text, words[i][1]) == 0) return ": write false";
    }
    return "";
}

const char *yaml_hint(const struct yaml_source *source, int line, int column, const char *problem, const char *context,
                      int from, const char *indent) {
    const char *end = source->text + source->length, *text = yaml_find_line(source->text, end, line);
    const char *at = text; /* the place: column `column` of this line */
    for (int i = 1; i < column && at < end; i++) at += utf8_length(at, (size_t)(end - at)); /* it is valid UTF-8 */
    for (int i = line > 1 ? line - 1 : 1; i <= line; i++)
        if (yaml_has_wide_colon(yaml_find_line(source->text, end, i)))
            return i < line ? "on the line before, the colon is the full-width '\uff1a'; write ': '"
                            : "the colon is the full-width '\uff1a'; write ': '";
    if (context && strcmp(context, "while scanning an alias") == 0)
        return "text that begins with '*' needs quotes: \"*.h5\"";
    if (at > text && at[-1] == '$' && *at == '{')
        return "a parameter in braces needs quotes inside { } and [ ]: \"${name}\", or write $name";
    if (strstr(problem, "cannot start any token")) return "text that begins with this character needs quotes";
    if (strcmp(problem, "found unexpected ':'") == 0) return "a space must follow a key's colon: 'key: value'";
    bool begins = at == text + strspn(text, " ") || at == end; /* the place is the first character of its line */
    if (strcmp(problem, "mapping values are not allowed in this context") == 0) {
        const char *before = line > 1 ? yaml_find_line(source->text, end, line - 1) : "";
        if (yaml_lacks_space(before)) return "on the line before, a space must follow the key's colon: 'key: value'";
        before += strspn(before, " ");
        if (before[0] == '-' && isalpha((unsigned char)before[1]))
            return "on the line before, a space must follow the '-': '- key: value'";
        size_t indentation = strspn(text, " ");
        bool is_key = line > 1 && strcspn(text + indentation, " :\"'") == (size_t)(at - text) - indentation;
        return is_key ? "this line is indented further than the key before it" : "text with ': ' in it needs quotes";
    }
    if (context && strncmp(context, "while parsing a flow", 20) == 0) {
        for (int i = from; i <= line; i++)
            if (yaml_find_comment(yaml_find_line(source->text, end, i), end))
                return "' #' begins a comment: text with it needs quotes";
        return line > from ? "close the bracket, or end the entry before this with ','"
                           : "close the bracket, end the entry before this with ',', or put its text in quotes";
    }
    const struct {
        const char *problem, *at_start, *later; /* hints if `begins` or not; `later` NULL: the same one */
    } hints[] = {
        {"did not find expected key", indent,
         "the value ends before this: delete the rest, or put all of it in quotes"},
        {"did not find expected '-' indicator", indent, indent},
        {"could not find expected ':'", "': ' must follow the key", NULL},
        {"did not find expected <document start>", "the keys of the top level must begin in one column", NULL},
        {"found unexpected end of stream", "the closing quote is missing", NULL},
        {"found unknown escape character", "in \"...\" a backslash is written \\\\, in '...' \\", NULL},
        {"did not find expected comment or line break", "text that begins with '|' or '>' needs quotes", NULL},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(problem, hints[i].problem) == 0)
            return begins || !hints[i].later ? hints[i].at_start : hints[i].later;
    return NULL;
}
