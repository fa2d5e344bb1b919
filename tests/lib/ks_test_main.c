/* SPDX-License-Identifier: Apache-2.0 */
/* ks_test_main.c - the main() of test programs; apart, so that a program with its own main can use the library.
 */
#include "ks_test.h"

int main(int argc, char **argv)
{
    return ks_test_main(argc, argv);
}
