/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Opens a provider for the script `text`, in a file whose name has a blank. */
static void open_process(struct asking *asking, const char *text)
{
    char line[600];
    const char *path = asking_file("the script", text);

    EXPECT(chmod(path, 0700) == 0);
    asking_open(asking);
    snprintf(line, sizeof(line), "\"%s\" 'an argument'", path);
    EXPECT_OK(ks_provider_process_new(&asking->setup, ks_view_text(line), &asking->provider));
}

TEST(the_program_is_run_at_each_fetch)
{
    struct asking asking;

    open_process(&asking,
                 "#!/bin/sh\necho x >> \"$0.runs\"\n"
                 "printf '{\"Version\":1,\"AccessKeyId\":\"A%s\",\"SecretAccessKey\":\"S\","
                 "\"SessionToken\":\"%s\",\"Expiration\":\"2100-01-01T00:00:00Z\"}' "
                 "$(wc -l < \"$0.runs\") \"$(echo \"$1\" | tr ' ' _)\"\n");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "A1");
    EXPECT_STR(asking.credentials.token, "an_argument");
    EXPECT(asking.credentials.expires);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "A2");
    asking_close(&asking);
}

TEST(a_program_that_fails_is_told_without_what_it_said)
{
    struct asking asking;

    open_process(&asking, "#!/bin/sh\necho hush; echo hush >&2; exit 7\n");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, SYSTEM);
    EXPECT_CONTAINS(asking.detail.text, "credential_process: it ended with status 7");
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    asking_close(&asking);

    open_process(&asking, "#!/bin/sh\necho '{\"Version\":1,\"AccessKeyId\":\"hush\"}'\n");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    asking_close(&asking);

    open_process(&asking, "#!/none/there\n");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NOT_FOUND);
    asking_close(&asking);
}

TEST(closing_ends_the_program)
{
    struct asking asking;

    open_process(&asking, "#!/bin/sh\nexec sleep 600\n");
    asking.provider->vtable->fetch(asking.provider);
    ks_loop_turn(asking.loop, ks_span_ms(1));
    asking_close(&asking);
    EXPECT_EQ_I64(asking.answers, 0);
}

TEST(a_line_that_is_none_is_refused_when_made)
{
    struct asking asking;
    struct ks_provider *provider;

    open_process(&asking, "#!/bin/sh\n");
    int64_t live = ks_alloc_live();
    EXPECT_ERR(ks_provider_process_new(&asking.setup, KS_VIEW("a 'b"), &provider), INVALID);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    asking_close(&asking);
}
