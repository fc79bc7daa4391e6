/* fence.h - turns a crash or an endless loop of a library on a damaged or malicious file into an error that names the
 * file.
 *
 * HDF5 trusts its input files: a few changed bytes can make it read invalid memory, free memory twice or loop for
 * ever. If that happens while a thread is inside a fence, the process prints a message and ends with exit code 3;
 * finished results are kept, as after a kill. A crash in tilerun's own code stays a crash. */
#ifndef RUNNER_FENCE_H
#define RUNNER_FENCE_H

/* Installs the signal handlers; call once, at the start. */
void fence_install(void);
/* Catches libraries that end the process, as HDF5 and libgomp do if memory or threads run out: prints a message and
 * exits with code 4, inside a fence 3. A crash of HDF5, or of a library that it called, outside a fence exits with code
 * 3. */
void fence_catch_exits(void);
void fence_allow_exit(void); /* main is about to exit: it is not a library */

/* Until the end of the block, a crash, or computing for longer than fence_seconds (waiting for a disk does not count),
 * is blamed on the file at `path`, which must outlive the block. FENCE_LONG has no time limit. Fences nest; the
 * innermost one counts. */
#define FENCE(path)      const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 1)
#define FENCE_LONG(path) const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 0)

const char *fence_enter(const char *path, int limited); /* returns the path of the enclosing fence; NULL: none */
void fence_leave(const char *const *outer);
/* Restarts the time limit, because the library reached the next of many objects. */
void fence_renew(void);
extern int fence_seconds; /* 30; tests make it shorter */

#endif
