/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include "ks_test.h"

#include <stdio.h>

TEST(each_form_is_read)
{
    struct ks_address address;

    EXPECT_OK(ks_address_parse(KS_VIEW("127.0.0.1:8990"), &address, NULL));
    EXPECT_EQ_I64(address.kind, KS_ADDRESS_IPV4);
    EXPECT_STR(address.host, "127.0.0.1");
    EXPECT_EQ_U64(address.port, 8990);
    EXPECT_OK(ks_address_parse(KS_VIEW("[::1]:0"), &address, NULL));
    EXPECT_EQ_I64(address.kind, KS_ADDRESS_IPV6);
    EXPECT_STR(address.host, "::1");
    EXPECT_EQ_U64(address.port, 0);
    EXPECT_OK(ks_address_parse(KS_VIEW("localhost:65535"), &address, NULL));
    EXPECT_STR(address.host, "127.0.0.1");
    EXPECT_EQ_U64(address.port, 65535);
    EXPECT_OK(ks_address_parse(KS_VIEW("unix:/run/a:b.sock"), &address, NULL));
    EXPECT_EQ_I64(address.kind, KS_ADDRESS_UNIX);
    EXPECT_STR(address.path, "/run/a:b.sock");
}

TEST(what_is_no_address_is_refused_with_the_forms)
{
    static const char *const bad[] = {
        "",
        "8990",
        ":8990",
        "127.0.0.1",
        "127.0.0.1:",
        "1.2.3:80",
        "127.0.0.1:65536",
        "::1:8990",
        "[::1]",
        "[::1]8990",
        "[::1:8990",
        "[127.0.0.1]:80",
        "pod:8990",
        "127.0.0.1:-1",
        "127.0.0.1:000080",
        "unix:",
        "unix:relative",
        "127.0.0.1:80 ",
        "[]:80",
        "127.0.0.1:0x50",
    };
    struct ks_address address = {.port = 5};
    struct ks_detail detail;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!ks_err_is(ks_address_parse(ks_view_text(bad[i]), &address, &detail), KS_ERR_INVALID))
            FAIL("%s", bad[i]);
        EXPECT_CONTAINS(detail.text, "unix:/PATH");
    }
    EXPECT_EQ_U64(address.port, 5);
}

TEST(a_path_must_fit_into_a_socket_address)
{
    struct ks_address address;
    char text[200];

    snprintf(text, sizeof(text), "unix:/%0106d", 0);
    EXPECT_OK(ks_address_parse(ks_view_text(text), &address, NULL));
    snprintf(text, sizeof(text), "unix:/%0107d", 0);
    EXPECT(ks_err_is(ks_address_parse(ks_view_text(text), &address, NULL), KS_ERR_INVALID));
}

TEST(a_list_is_read_in_order)
{
    struct ks_address list[KS_ADDRESSES_MAX];
    uint32_t count = 0;

    EXPECT_OK(
        ks_address_parse_list(KS_VIEW("127.0.0.1:8990, [::1]:8990 ,unix:/s"), list, &count, NULL));
    EXPECT_EQ_U64(count, 3);
    EXPECT_STR(list[0].host, "127.0.0.1");
    EXPECT_STR(list[1].host, "::1");
    EXPECT_STR(list[2].path, "/s");
}

TEST(a_list_is_bounded_and_has_no_holes_and_nothing_twice)
{
    static const char *const bad[] = {
        "",
        ",",
        "127.0.0.1:1,",
        ",127.0.0.1:1",
        "127.0.0.1:1,,127.0.0.1:2",
        "127.0.0.1:1,localhost:1",
        "unix:/a,unix:/a",
        "[::1]:1,[::1]:1",
        "unix:/1,unix:/2,unix:/3,unix:/4,unix:/5,unix:/6,unix:/7,unix:/8,unix:/9",
    };
    struct ks_address list[KS_ADDRESSES_MAX];
    uint32_t count = 9;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ks_detail detail = {""};
        if (!ks_err_is(ks_address_parse_list(ks_view_text(bad[i]), list, &count, &detail),
                       KS_ERR_INVALID))
            FAIL("%s", bad[i]);
        EXPECT(detail.text[0] != '\0');
    }
    EXPECT_EQ_U64(count, 9);
}

TEST(two_ports_that_the_system_chooses_are_two_places)
{
    struct ks_address list[KS_ADDRESSES_MAX];
    uint32_t count = 0;

    EXPECT_OK(ks_address_parse_list(KS_VIEW("127.0.0.1:0,127.0.0.1:0"), list, &count, NULL));
    EXPECT_EQ_U64(count, 2);
    EXPECT(!ks_address_equal(&list[0], &list[1]));
}

TEST(loopback_is_told_from_what_others_reach)
{
    static const char *const here[] = {"127.0.0.1", "127.9.9.9", "::1"};
    static const char *const others[] = {"0.0.0.0", "10.0.0.1", "::", "fe80::1", "localhost", ""};

    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
        EXPECT(ks_is_loopback(ks_view_text(here[i])));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT(!ks_is_loopback(ks_view_text(others[i])));
}
