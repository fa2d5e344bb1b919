/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - which version this is. */
#ifndef KS_MAIN_VERSION_H
#define KS_MAIN_VERSION_H

#define KS_VERSION "0.1.0"

#endif
