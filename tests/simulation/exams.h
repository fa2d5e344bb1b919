/* SPDX-License-Identifier: Apache-2.0 */
/* exams.h - after the faults, in a fleet at rest, one more thing happens: how soon is everything as it should be again?
 *
 *  kill    one process dies: everything is served again within 4/3 L + 2 s
 *  drain   one process is told to leave: the others serve everything soon
 *  idle    the apps of one process close: it gives its leases away after idle_release
 *  join    one more process starts: the fleet is balanced, with as few moves as that takes
 *  deploy  everybody is replaced, one after the other
 *
 * Except after a kill nothing is delivered twice, and nothing is taken by force.
 */
#ifndef KS_SIM_EXAMS_H
#define KS_SIM_EXAMS_H

struct world;

void exams_begin(struct world *world);
/* Every tenth of a second, until it is passed: world->over; or failed. */
void exams_look(struct world *world);

#endif
