/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the options for the SOVERSION of the library. A program that was built with another
 * layout would be misread. A change of the options changes three places: the struct below,
 * the number in CMakeLists.txt, and CHANGELOG.md, which says why. */
#include "check.h"
#include "kinesis-sidecar-client.h"

/* As the programs have it that were built with the first library of this SOVERSION. */
struct options_of_soversion_1 {
    const char *url;
    const char *token_file;
    const char *subscription;
    const char *const *shards;
    const char *share;
    const char *salt;
    const char *filter;
    uint32_t max_in_flight;
    uint64_t max_in_flight_bytes;
    int64_t ack_deadline_ms;
    int64_t max_processing_ms;
    int64_t ack_interval_ms;
    ks_client_ordering ordering;
    uint32_t lanes;
    uint32_t concurrency;
    bool handle_signals;
    void (*on_event)(const ks_event *event, void *event_context);
    void *event_context;
};

#define EXPECT_SAME_PLACE(member)                                                                  \
    EXPECT_EQ(offsetof(ks_consumer_options, member),                                               \
              offsetof(struct options_of_soversion_1, member))

TEST(options_have_the_layout_of_the_soversion)
{
    EXPECT_EQ(SOVERSION, 1);
    EXPECT_EQ(sizeof(ks_consumer_options), sizeof(struct options_of_soversion_1));
    EXPECT_SAME_PLACE(url);
    EXPECT_SAME_PLACE(token_file);
    EXPECT_SAME_PLACE(subscription);
    EXPECT_SAME_PLACE(shards);
    EXPECT_SAME_PLACE(share);
    EXPECT_SAME_PLACE(salt);
    EXPECT_SAME_PLACE(filter);
    EXPECT_SAME_PLACE(max_in_flight);
    EXPECT_SAME_PLACE(max_in_flight_bytes);
    EXPECT_SAME_PLACE(ack_deadline_ms);
    EXPECT_SAME_PLACE(max_processing_ms);
    EXPECT_SAME_PLACE(ack_interval_ms);
    EXPECT_SAME_PLACE(ordering);
    EXPECT_SAME_PLACE(lanes);
    EXPECT_SAME_PLACE(concurrency);
    EXPECT_SAME_PLACE(handle_signals);
    EXPECT_SAME_PLACE(on_event);
    EXPECT_SAME_PLACE(event_context);
}
