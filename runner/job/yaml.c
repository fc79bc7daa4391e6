/* yaml.c - builds a tree with positions from libyaml's events: resolves types, aliases and merge keys, and enforces
 * limits before a hostile file can exhaust memory or time. */
#include "yaml.h"

#include "../base/fail.h"
#include "../base/file_io.h"
#include "../base/text.h"
#include "yaml_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

struct tree_builder {
    struct yaml_document *document;
    yaml_parser_t parser;
    void *anchors; /* a tsearch tree of struct anchor */
    int created;   /* nodes read */
};

struct anchor {
    char *name;
    struct owned_node *target;
};

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* Makes a node that the document owns, without text and entries. */
static struct owned_node *new_node(struct yaml_document *document, enum yaml_kind kind, int line, int column) {
    struct owned_node *owned = must_malloc(sizeof *owned);
    *owned = (struct owned_node){.node = {.kind = kind, .line = line, .column = column, .source = document->source},
                                 .next = document->nodes,
                                 .expanded = 1,
                                 .height = kind == YAML_LIST || kind == YAML_MAP};
    document->nodes = owned;
    return owned;
}

static struct owned_node *new_scalar(struct yaml_document *document, int line, int column, const char *text,
                                     bool quoted) {
    struct owned_node *owned = new_node(document, YAML_STRING, line, column);
    owned->node.text = must_strdup(text);
    owned->node.quoted = quoted;
    yaml_resolve_type(&owned->node);
    return owned;
}

struct yaml_node *yaml_scalar(struct yaml_document *document, const struct yaml_node *where, const char *text,
                              bool quoted) {
    struct owned_node *owned = new_scalar(document, where ? where->line : 0, where ? where->column : 0, text, quoted);
    if (where) owned->node.source = where->source;
    return &owned->node;
}

/* ---- anchors --------------------------------------------------------------------------------------------------- */

static int compare_anchors(const void *a, const void *b) {
    return strcmp(((const struct anchor *)a)->name, ((const struct anchor *)b)->name);
}

/* Makes an anchor, unless `name` is NULL, refer to a node. */
static void set_anchor(struct tree_builder *builder, const yaml_char_t *name, struct owned_node *target) {
    if (!name) return;
    struct anchor *anchor = must_malloc(sizeof *anchor);
    *anchor = (struct anchor){must_strdup((const char *)name), target};
    struct anchor **found = tsearch(anchor, &builder->anchors, compare_anchors);
    if (*found == anchor) return;
    (*found)->target = target; /* an anchor may be redefined: aliases refer to the latest */
    free(anchor->name);
    free(anchor);
}

static struct owned_node *find_anchor(struct tree_builder *builder, const yaml_char_t *name) {
    struct anchor key = {.name = (char *)name};
    struct anchor **found = tfind(&key, &builder->anchors, compare_anchors);
    return found ? (*found)->target : NULL;
}

static void free_anchor(void *anchor) {
    free(((struct anchor *)anchor)->name);
    free(anchor);
}

/* ---- events -> nodes ------------------------------------------------------------------------------------------- */

/* Reports an error at an event and returns NULL, which the caller returns too, so that parsing ends. */
__attribute__((format(printf, 3, 4))) static struct owned_node *
fail_at(struct tree_builder *builder, const yaml_event_t *event, const char *format, ...) {
    char text[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments); // NOLINT(clang-analyzer-valist.Uninitialized): va_start does it
    va_end(arguments);
    yaml_error_at(builder->document, (int)event->start_mark.line + 1, (int)event->start_mark.column + 1, "%s", text);
    return NULL;
}

/* Gets the next event of the YAML parser. Reports that the text is not YAML, with a hint, and returns false. */
static bool next_event(struct tree_builder *builder, yaml_event_t *event) {
    yaml_parser_t *parser = &builder->parser;
    if (yaml_parser_parse(parser, event)) return true;
    const char *problem = parser->problem ? parser->problem : "out of memory";
    const yaml_mark_t *mark = &parser->problem_mark;
    int line = (int)mark->line + 1, column = (int)mark->column + 1, from = (int)parser->context_mark.line + 1;
    char indent[120];
    snprintf(indent, sizeof indent, "this line begins in column %d, but the entries from line %d on in column %d",
             column, from, (int)parser->context_mark.column + 1);
    const char *hint = yaml_hint(builder->document->source, line, column, problem, parser->context, from, indent);
    if (parser->error == YAML_READER_ERROR || parser->error == YAML_MEMORY_ERROR)
        yaml_error(builder->document, NULL, "not YAML: %s", problem);
    else if (*parser->buffer.pointer == '\t')
        yaml_error_at(builder->document, line, column, "not YAML: a tab cannot indent; use spaces");
    else if (!hint && parser->context)
        yaml_error_at(builder->document, line, column, "not YAML: %s (%s, from line %d)", problem, parser->context,
                      from);
    else if (parser->context && from < line && hint != indent)
        yaml_error_at(builder->document, line, column, "not YAML: %s (begun on line %d)", hint, from);
    else
        yaml_error_at(builder->document, line, column, "not YAML: %s", hint ? hint : problem);
    return false;
}

/* Adds a child's nodes and levels to those of its parent. Reports too large an expansion and returns false. */
static bool count_child(struct tree_builder *builder, struct owned_node *parent, const struct owned_node *child,
                        const yaml_event_t *event) {
    parent->expanded += child->expanded;
    if (child->height + 1 > parent->height) parent->height = child->height + 1;
    if (parent->expanded <= YAML_MAX_NODES) return true;
    fail_at(builder, event, "the document expands to more than %d nodes", YAML_MAX_NODES);
    return false;
}

static struct owned_node *build_node(struct tree_builder *builder, const yaml_event_t *event, int depth);

/* From here on, a function build_X builds X, of which `event` is the first event, inside `depth` lists and maps; it
 * reports an error and returns NULL or false. */

/* Builds an alias: finds the node that it refers to. */
static struct owned_node *build_alias(struct tree_builder *builder, const yaml_event_t *event, int depth) {
    struct owned_node *target = find_anchor(builder, event->data.alias.anchor);
    if (!target)
        return fail_at(builder, event,
                       "this alias refers to no earlier anchor; text that begins with '*' needs quotes");
    if (target->open) return fail_at(builder, event, "this alias is cyclic: it refers to a node that contains it");
    if (depth + target->height > YAML_MAX_DEPTH)
        return fail_at(builder, event, "this alias nests lists and maps more than %d levels deep", YAML_MAX_DEPTH);
    return target;
}

/* Builds a scalar and gives it its type. */
static struct owned_node *build_scalar(struct tree_builder *builder, const yaml_event_t *event, int line, int column) {
    const char *text = (const char *)event->data.scalar.value;
    if (strlen(text) != event->data.scalar.length) return fail_at(builder, event, "text must not hold a NUL character");
    const char *tag = (const char *)event->data.scalar.tag;
    bool string = tag && (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0);
    bool real = tag && strcmp(tag, YAML_FLOAT_TAG) == 0;
    if (tag && !string && !real) return fail_at(builder, event, OTHER_TAGS);
    bool quoted = string || event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    struct owned_node *owned = new_scalar(builder->document, line, column, text, quoted);
    if (real && !yaml_read_real(&owned->node)) return fail_at(builder, event, "this is not a number");
    set_anchor(builder, event->data.scalar.anchor, owned);
    return owned;
}

/* Builds the items of a list up to its end. */
static bool build_list(struct tree_builder *builder, struct owned_node *owned, int depth) {
    struct yaml_node *node = &owned->node;
    int capacity = 0;
    for (;;) {
        yaml_event_t event;
        if (!next_event(builder, &event)) return false;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        struct owned_node *item = end ? NULL : build_node(builder, &event, depth);
        bool good = item && count_child(builder, owned, item, &event);
        yaml_event_delete(&event);
        if (end) return true;
        if (!good) return false;
        if (node->count == capacity)
            node->items = must_realloc(node->items, sizeof *node->items * (size_t)(capacity = 2 * capacity + 4));
        node->items[node->count++] = &item->node;
    }
}

/* An entry of a map that is being read. */
struct map_entry {
    struct yaml_node *key, *value;
    int order;
    bool merged;  /* `<<` gives it */
    bool dropped; /* another entry has its key, or the key begins with x- */
};

struct entries {
    int count, capacity;
    struct map_entry *items;
};

static void add_entry(struct entries *entries, struct yaml_node *key, struct yaml_node *value, bool merged) {
    if (entries->count == entries->capacity)
        entries->items = must_realloc(entries->items,
                                      sizeof *entries->items * (size_t)(entries->capacity = 2 * entries->capacity + 8));
    entries->items[entries->count] = (struct map_entry){key, value, entries->count, merged, false};
    entries->count++;
}

/* Adds the entries that `<<` merges: those of one map, or of each map in a list. The first of equal keys wins. Reports
 * another value. false: the document has become too large, which was reported, and parsing must stop. */
static bool add_merged(struct tree_builder *builder, struct owned_node *owned, struct entries *entries,
                       const struct yaml_node *key, struct yaml_node *value) {
    bool list = value->kind == YAML_LIST;
    for (int i = 0; i < (list ? value->count : 1); i++) {
        struct yaml_node *map = list ? value->items[i] : value;
        if (map->kind != YAML_MAP) {
            yaml_error(builder->document, key, "'<<' must merge a map or a list of maps");
            return true;
        }
        owned->expanded += ((struct owned_node *)map)->expanded;
        if (owned->expanded > YAML_MAX_NODES)
            return yaml_error(builder->document, key, "the document expands to more than %d nodes", YAML_MAX_NODES);
        for (int j = 0; j < map->count; j++) add_entry(entries, map->keys[j], map->items[j], true);
    }
    return true;
}

/* Orders by key, then explicit entries before merged ones, then by the file. */
static int compare_keys(const void *a, const void *b) {
    const struct map_entry *x = a, *y = b;
    int names = strcmp(x->key->text, y->key->text);
    if (names) return names;
    if (x->merged != y->merged) return x->merged - y->merged;
    return x->order - y->order;
}

static int compare_order(const void *a, const void *b) {
    return ((const struct map_entry *)a)->order - ((const struct map_entry *)b)->order;
}

/* Fills a map from its entries, in the order of the file. Reports keys that are given twice. Sorting by compare_keys
 * brings entries with equal keys together, the winner first. */
static void fill_map(struct yaml_document *document, struct yaml_node *map, struct entries *entries) {
    if (entries->count == 0) return;
    struct map_entry *items = entries->items, *winner = items;
    qsort(items, (size_t)entries->count, sizeof *items, compare_keys);
    for (int i = 0; i < entries->count; i++) {
        struct map_entry *entry = &items[i];
        const struct yaml_node *key = entry->key;
        if (i == 0 || strcmp(key->text, winner->key->text) != 0)
            winner = entry;
        else
            entry->dropped = true;
        if (entry->dropped && !entry->merged) {
            yaml_error(document, key, "key '%s' is already on line %d", key->text, winner->key->line);
            winner->value->wrong = map->wrong = true;
        }
        if (strncmp(key->text, "x-", 2) == 0) entry->dropped = true;
    }
    qsort(items, (size_t)entries->count, sizeof *items, compare_order);
    map->keys = must_malloc(sizeof *map->keys * (size_t)entries->count);
    map->items = must_malloc(sizeof *map->items * (size_t)entries->count);
    for (int i = 0; i < entries->count; i++) {
        if (items[i].dropped) continue;
        map->keys[map->count] = items[i].key;
        map->items[map->count++] = items[i].value;
    }
}

/* Reads one key and its value into the entries of a map. */
static bool build_entry(struct tree_builder *builder, struct owned_node *owned, struct entries *entries,
                        const yaml_event_t *key_event, int depth) {
    struct owned_node *key = build_node(builder, key_event, depth);
    if (!key) return false;
    if (!key->node.text) return fail_at(builder, key_event, "a key must be a single word, not a list or a map") != NULL;
    yaml_event_t event;
    if (!count_child(builder, owned, key, key_event) || !next_event(builder, &event)) return false;
    struct owned_node *value = build_node(builder, &event, depth);
    bool good = value && count_child(builder, owned, value, &event);
    yaml_event_delete(&event);
    if (!good) return false;
    if (!key->node.quoted && strcmp(key->node.text, "<<") == 0)
        return add_merged(builder, owned, entries, &key->node, &value->node);
    add_entry(entries, &key->node, &value->node, false);
    return true;
}

/* Builds the entries of a map up to its end, then the map of them. */
static bool build_map(struct tree_builder *builder, struct owned_node *owned, int depth) {
    struct entries entries = {0};
    bool good = true, end = false;
    while (good && !end) {
        yaml_event_t event;
        good = next_event(builder, &event);
        if (!good) break;
        end = event.type == YAML_MAPPING_END_EVENT;
        if (!end) good = build_entry(builder, owned, &entries, &event, depth);
        yaml_event_delete(&event);
    }
    if (good) fill_map(builder->document, &owned->node, &entries);
    free(entries.items);
    return good;
}

/* Builds a node of any kind. */
static struct owned_node *build_node(struct tree_builder *builder, const yaml_event_t *event, int depth) {
    if (event->type == YAML_ALIAS_EVENT) return build_alias(builder, event, depth);
    if (++builder->created > YAML_MAX_NODES)
        return fail_at(builder, event, "the document has more than %d nodes", YAML_MAX_NODES);
    int line = (int)event->start_mark.line + 1, column = (int)event->start_mark.column + 1;
    if (event->type == YAML_SCALAR_EVENT) return build_scalar(builder, event, line, column);

    if (depth == YAML_MAX_DEPTH)
        return fail_at(builder, event, "lists and maps are nested more than %d levels deep", YAML_MAX_DEPTH);
    bool list = event->type == YAML_SEQUENCE_START_EVENT;
    if (list ? event->data.sequence_start.tag != NULL : event->data.mapping_start.tag != NULL)
        return fail_at(builder, event, OTHER_TAGS);
    struct owned_node *owned = new_node(builder->document, list ? YAML_LIST : YAML_MAP, line, column);
    set_anchor(builder, list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor, owned);
    owned->open = true;
    if (!(list ? build_list(builder, owned, depth + 1) : build_map(builder, owned, depth + 1))) return NULL;
    owned->open = false;
    return owned;
}

/* Builds the only document of the stream. Reports an error and returns NULL. */
static struct owned_node *build_root(struct tree_builder *builder) {
    struct owned_node *root = NULL;
    for (;;) {
        yaml_event_t event;
        if (!next_event(builder, &event)) return NULL;
        bool good = true, end = event.type == YAML_STREAM_END_EVENT;
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_END_EVENT: break;
        case YAML_DOCUMENT_START_EVENT:
            if (root) good = fail_at(builder, &event, "a second document begins here; a file holds one job") != NULL;
            break;
        default: good = (root = build_node(builder, &event, 0)) != NULL;
        }
        yaml_event_delete(&event);
        if (!good) return NULL;
        if (end && !root) yaml_error(builder->document, NULL, "the file is empty");
        if (end) return root;
    }
}

/* ---- documents ------------------------------------------------------------------------------------------------- */

/* Reports an HDF5 file, and the first byte that is not UTF-8 or a control character that YAML does not allow; then
 * returns false. */
static bool check_text(struct yaml_document *document) {
    static const char hdf5[] = "\x89HDF\r\n\x1a\n";
    int line = 1, column = 1;
    if (document->source->length >= sizeof hdf5 - 1 && memcmp(document->source->text, hdf5, sizeof hdf5 - 1) == 0)
        return yaml_error(
            document, NULL,
            "is an HDF5 file, not a job file; `tilerun show` prints results, `tilerun inspect` lists data sets");
    for (size_t i = 0; i < document->source->length;) {
        const char *text = document->source->text + i;
        size_t remaining = document->source->length - i;
        int line_break = yaml_break_length(text, remaining), size = utf8_length(text, remaining);
        bool control = size > 0 && line_break == 0 && *text != '\t' && yaml_is_control(text);
        if (size == 0 || control)
            return yaml_error_at(document, line, column,
                                 control ? "a control character (byte 0x%02x) must be written as an escape"
                                 : i == 0 && (unsigned char)*text >= 0xfe
                                     ? "not UTF-8 text (byte 0x%02x) but UTF-16: save the file as UTF-8"
                                     : "not UTF-8 text (byte 0x%02x)",
                                 (unsigned char)*text);
        column = line_break ? 1 : column + 1;
        line += line_break > 0;
        i += (size_t)(line_break ? line_break : size);
    }
    return true;
}

/* Builds the document's tree from its text; after an error, which is reported, it has no root. */
static void parse(struct yaml_document *document) {
    if (!check_text(document)) return;
    struct tree_builder builder = {.document = document};
    if (!yaml_parser_initialize(&builder.parser)) {
        yaml_error(document, NULL, "out of memory");
        return;
    }
    yaml_parser_set_input_string(&builder.parser, (const unsigned char *)document->source->text,
                                 document->source->length);
    struct owned_node *root = build_root(&builder);
    document->root = root ? &root->node : NULL;
    tdestroy(builder.anchors, free_anchor);
    yaml_parser_delete(&builder.parser);
}

static struct yaml_document *new_document(const char *name) {
    struct yaml_document *document = must_malloc(sizeof *document);
    *document = (struct yaml_document){.source = must_malloc(sizeof *document->source)};
    *document->source = (struct yaml_source){.name = must_strdup(name)};
    return document;
}

struct yaml_document *yaml_parse(const char *name, const char *text, size_t length) {
    struct yaml_document *document = new_document(name);
    document->source->text = must_malloc(length + 1);
    memcpy(document->source->text, text, length);
    document->source->text[length] = '\0';
    document->source->length = length;
    parse(document);
    return document;
}

struct yaml_document *yaml_load(const char *path) {
    struct yaml_document *document = new_document(path);
    bool stdin_named = strcmp(path, YAML_STDIN) == 0;
    OWNED_DESCRIPTOR int file = stdin_named ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0)
        yaml_error(document, NULL, "cannot be opened: %s", strerror(errno));
    else if (S_ISDIR(facts.st_mode))
        yaml_error(document, NULL, "is a directory, not a job file");
    else if (facts.st_size > YAML_MAX_BYTES)
        yaml_error(document, NULL, "has %lld bytes; the maximum for a job file is %d MiB", (long long)facts.st_size,
                   YAML_MAX_BYTES >> 20);
    else if (!(document->source->text = file_read_all(file, YAML_MAX_BYTES, &document->source->length)))
        yaml_error(document, NULL, "cannot be read: %s", strerror(errno));
    else if (document->source->length > YAML_MAX_BYTES)
        yaml_error(document, NULL, "has more than %d MiB, the maximum for a job file", YAML_MAX_BYTES >> 20);
    else
        parse(document);
    return document;
}

void yaml_close(struct yaml_document *document) {
    if (!document) return;
    for (struct owned_node *owned = document->nodes, *next; owned; owned = next) {
        next = owned->next;
        free(owned->node.text);
        free(owned->node.keys);
        free(owned->node.items);
        free(owned);
    }
    for (int i = 0; i < document->diagnostics.count && i < YAML_MAX_ERRORS; i++)
        free(document->diagnostics.items[i].text);
    for (struct yaml_source *source = document->source, *next; source; source = next) {
        next = source->next;
        free(source->name);
        free(source->text);
        free(source);
    }
    free(document);
}

struct yaml_node *yaml_root(const struct yaml_document *document) {
    return document->root;
}

const char *yaml_text(const struct yaml_document *document, size_t *length) {
    *length = document->source->length;
    return document->source->text;
}

const struct yaml_node *yaml_key(const struct yaml_node *map, const char *key) {
    for (int i = 0; map && map->kind == YAML_MAP && i < map->count; i++)
        if (strcmp(map->keys[i]->text, key) == 0) return map->keys[i];
    return NULL;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key) {
    if (!map || map->kind != YAML_MAP) return NULL;
    for (int i = 0; i < map->count; i++)
        if (strcmp(map->keys[i]->text, key) == 0) return map->items[i];
    return NULL;
}

void yaml_set(struct yaml_document *document, const struct yaml_node *where, struct yaml_node *map, const char *key,
              const char *text) {
    int entry = 0;
    while (entry < map->count && strcmp(map->keys[entry]->text, key) != 0) entry++;
    if (entry == map->count) {
        map->keys = must_realloc(map->keys, sizeof *map->keys * (size_t)(entry + 1));
        map->items = must_realloc(map->items, sizeof *map->items * (size_t)(entry + 1));
        map->keys[map->count++] = &new_scalar(document, 0, 0, key, false)->node;
    }
    map->items[entry] = yaml_scalar(document, where, text, false);
}
