/* fence.h - fences a block of code in which a crash or an endless loop of a library is blamed on one file: the process
 * prints an error that names the file, and ends with exit code 3. Finished results are kept, as after a kill.
 *
 * HDF5 trusts its input files: a few changed bytes can make it read invalid memory, free memory twice or loop for ever.
 * A crash in tilerun's own code stays a crash, also inside a fence. */
#ifndef RUNNER_FENCE_H
#define RUNNER_FENCE_H

/* Installs the signal handlers; call once, at the start. */
void fence_install(void);
/* Catches libraries that end the process, as HDF5 and libgomp do if memory or threads run out: prints a message and
 * exits with code 4, or with code 3 inside a fence. From then on, a crash of HDF5, or of a library that it called,
 * exits with code 3 also outside a fence. Call it once, at the start. */
void fence_catch_exits(void);
/* Names the kernel of the user that runs; NULL: none. If it ends the process or crashes, a message says so. */
void fence_set_kernel(const char *name);
/* Allows the program itself to exit; main calls it last. */
void fence_allow_exit(void);

/* Puts the rest of the enclosing block into a fence for the file at `path`, which must outlive the block. FENCE also
 * ends the process if the block computes for longer than fence_seconds (waiting for a disk does not count); FENCE_LONG
 * has no time limit. Fences nest: the file of the innermost one is blamed, but only the outermost one's time is
 * limited. */
#define FENCE(path)      const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 1)
#define FENCE_LONG(path) const char *fence_outer_ __attribute__((cleanup(fence_leave), unused)) = fence_enter(path, 0)

/* For a fence that outlives a block: fence_enter returns the path of the enclosing fence (NULL: none), which
 * fence_leave then restores. */
const char *fence_enter(const char *path, int limited);
void fence_leave(const char *const *outer);
/* Restarts the time limit of the fence; call it when the library has reached the next of many objects. */
void fence_renew(void);
extern int fence_seconds; /* 30; tests make it shorter */

#endif
