/* interrupt.c - the signal flag, one of the program's two pieces of global state. */
#include "interrupt.h"

#include "fail.h"
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

volatile int interrupt_signal = 0;

static void on_signal(int number) {
    /* Finished parts are safe and half of one never counts, so there is nothing to clean up. */
    if (number == SIGINT && interrupt_signal == SIGINT) _exit(STATUS_INTERRUPTED);
    interrupt_signal = number;
}

void interrupt_install(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    const int signals[] = {SIGTERM, SIGUSR1, SIGUSR2, SIGINT};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, NULL);
    /* A full disk under a size limit, or a reader of our pipe that went away, is an error to report, not a death. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGXFSZ, &ignore, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}
