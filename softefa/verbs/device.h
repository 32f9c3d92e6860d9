/* SPDX-License-Identifier: MIT */
/* Whether there is a device. */
#ifndef SOFT_DEVICE_H
#define SOFT_DEVICE_H

#include <stdbool.h>

/* Whether the environment asks for the device. If so, nothing is handed on to the libraries of real ones. */
bool soft_asked(void);

#endif
