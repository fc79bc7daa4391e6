/* interrupt.h - signals that mean "finish what is in hand, keep it, exit 75": TERM, USR1, USR2 and the first INT,
 * whichever of them a site's scheduler sends. A second INT ends the program at once. */
#ifndef RUNNER_INTERRUPT_H
#define RUNNER_INTERRUPT_H

void interrupt_install(void);
/* The number of the signal that came; 0: none. */
extern volatile int interrupt_signal;

#endif
