/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"
#include "api/server.h"
#include "base/budget.h"
#include "ks_test.h"
#include "unit/ports/stage.h"

#include <stdio.h>
#include <string.h>

static struct stage stage;

static struct ks_api_config config_of(const char *listen)
{
    return (struct ks_api_config){
        .loop = stage.loop,
        .boards = &stage.board,
        .board_count = 1,
        .listen = listen,
        .connections_max = 10,
        .request_bytes_max = 1000,
    };
}

TEST(what_cannot_be_listened_at_is_named)
{
    struct ks_detail detail;
    struct ks_api *first;
    struct ks_api *second;
    struct ks_api_config config;
    char listen[300];

    stage_begin(&stage, "worker");
    (void)snprintf(listen, sizeof(listen), "unix:%s", ks_test_path("api"));
    config = config_of(listen);
    EXPECT_OK(ks_api_open(&config, &first, &detail));
    EXPECT_ERR(ks_api_open(&config, &second, &detail), EXISTS);
    EXPECT_CONTAINS(detail.text, "in use");
    config = config_of("nonsense");
    EXPECT_ERR(ks_api_open(&config, &second, &detail), INVALID);
    config = config_of(listen);
    config.token_file = "/nowhere/token";
    EXPECT_ERR(ks_api_open(&config, &second, &detail), DISK);
    EXPECT(!ks_api_busy(first));
    ks_api_close(first);
    ks_api_close(NULL);
    stage_vanish(&stage);
}

TEST(a_boot_id_has_sixteen_digits)
{
    char text[KS_BOOT_ID_SIZE];

    ks_api_boot_text(0xAB, text);
    EXPECT_STR(text, "00000000000000ab");
}
