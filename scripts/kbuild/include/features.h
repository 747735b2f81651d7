/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands in for the C library's <features.h>, the one header of a hosted system that libstdc++'s
 * freestanding headers ask for. A kernel module has no C library, so it has nothing to say.
 */
#define __GLIBC_PREREQ(major, minor) ((major) < 0 && (minor) < 0)
