/* fuzz_command.c - any words, one a line, as a command line. Words with a slash are left out: nothing shall be written
 * beside the scratch folder. */
#include "fuzz.h"

enum { MOST_WORDS = 12 };

static const char job[] = "version: 1\ndevice: cpu\ndefaults: {warmup: 0, repeat: 1}\n"
                          "inputs: {x: {random: {shape: [5, 7]}}}\n"
                          "operations: [{id: y, op: transpose, inputs: [x]}]\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_begin();
    if (size < 2 || memchr(data, '/', size) || memchr(data, '\0', size)) return 0;
    char *text = malloc(size + 1), *words[MOST_WORDS + 1] = {NULL}, *rest;
    memcpy(text, data, size);
    text[size] = '\0';
    int total = 0;
    while (commands[total]) total++;
    fuzz_write("job.yaml", job, sizeof job - 1);
    const struct command *command = commands[data[0] % total];
    int count = 1;
    words[0] = (char *)command->name;
    for (char *word = strtok_r(text + 1, "\n", &rest); word && count < MOST_WORDS; word = strtok_r(NULL, "\n", &rest))
        words[count++] = word;
    fuzz_command(command, words);
    free(text);
    fuzz_end();
    return 0;
}
