/* fence.h - a library that crashes, or never ends, on a damaged or hostile file becomes a refusal that names the file.
 *
 * HDF5 trusts much of what a file says: a few changed bytes can make it read where nothing is, free what it never had,
 * or go round in circles. While a thread is behind a fence that ends the process with exit code 3 and a sentence;
 * everything that was finished is kept, as after a kill. A crash in tilerun's own code stays a crash. */
#ifndef RUNNER_FENCE_H
#define RUNNER_FENCE_H

/* Call once, at the start. */
void fence_install(void);
/* From here on a library that ends the process does so with a sentence and exit code 4, behind a fence 3: HDF5 and
 * libgomp do where there is no memory, or no thread. Where HDF5, or what it calls, crashes behind no fence it is exit
 * code 3. */
void fence_catch_exits(void);
void fence_allow_exit(void); /* main does, no library */

/* From here to the end of the block what crashes, or computes for longer than fence_seconds (waiting for a disk does
 * not count), is the fault of the file at `path`, which must live as long. Fences nest; the innermost counts. */
#define FENCE(path)      const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 1)
#define FENCE_LONG(path) const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 0)

const char *fence_enter(const char *path, int limited); /* returns the fence that the thread is behind; NULL: none */
void fence_leave(const char *const *outer);
/* The library has come a step further, to the next of many objects: its time begins anew. */
void fence_renew(void);
extern int fence_seconds; /* 30; tests make it shorter */

#endif
