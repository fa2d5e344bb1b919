/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ack_id.h"

#include <assert.h>

#include "base/codec.h"
#include "base/digest.h"

enum {
    KIND_ACK = 1,
    KIND_BATCH = 2,
    HEAD_BYTES = 12, /* kind, boot, subscription, slot, session epoch */
    ASSIGNMENT_BYTES = 6,
    PLACE_BYTES = 15 + ASSIGNMENT_BYTES, /* shard, epoch, assignment, number */
    RUN_BYTES = PLACE_BYTES + 4,         /* and count */
    MAC_BYTES = 8,
    ACK_BYTES = HEAD_BYTES + PLACE_BYTES + MAC_BYTES,
    BATCH_BYTES_MAX = HEAD_BYTES + KS_BATCH_RUNS_MAX * RUN_BYTES + MAC_BYTES,
    EPOCH_BITS = 40,
    NUMBER_BITS = 48,
    /* What the ack_ids of a run share: all before the number. Whole groups of base64, and whole words of the MAC. */
    SHARED_BYTES = HEAD_BYTES + 4 + EPOCH_BITS / 8 + ASSIGNMENT_BYTES,
    SHARED_CHARACTERS = SHARED_BYTES / 3 * 4,
    SHARED_WORDS = SHARED_BYTES / 8,
    REST_BYTES = SHARED_BYTES % 8
};

_Static_assert((ACK_BYTES * 4 + 2) / 3 == KS_ACK_ID_SIZE, "the promised length");
_Static_assert(REST_BYTES + NUMBER_BITS / 8 == 9, "a word and a byte of the MAC");
_Static_assert((BATCH_BYTES_MAX * 4 + 2) / 3 == KS_BATCH_ID_MAX, "the promised length");

static inline uint64_t turned(uint64_t value, unsigned bits)
{
    return (value << bits) | (value >> (64 - bits));
}

static inline void sip_round(struct ks_ack_sip *sip)
{
    sip->v0 += sip->v1;
    sip->v1 = turned(sip->v1, 13) ^ sip->v0;
    sip->v0 = turned(sip->v0, 32);
    sip->v2 += sip->v3;
    sip->v3 = turned(sip->v3, 16) ^ sip->v2;
    sip->v0 += sip->v3;
    sip->v3 = turned(sip->v3, 21) ^ sip->v0;
    sip->v2 += sip->v1;
    sip->v1 = turned(sip->v1, 17) ^ sip->v2;
    sip->v2 = turned(sip->v2, 32);
}

static inline void sip_word(struct ks_ack_sip *sip, uint64_t word)
{
    sip->v3 ^= word;
    sip_round(sip);
    sip_round(sip);
    sip->v0 ^= word;
}

static inline uint64_t little_endian(const uint8_t *data, size_t size)
{
    uint64_t word = 0;

    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)data[i] << (8 * i);
    return word;
}

static struct ks_ack_sip sip_begin(const uint64_t key[2])
{
    return (struct ks_ack_sip){
        key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
}

static uint64_t sip_end(struct ks_ack_sip *sip, uint64_t last)
{
    sip_word(sip, last);
    sip->v2 ^= 0xFF;
    for (int round = 0; round < 4; round++)
        sip_round(sip);
    return sip->v0 ^ sip->v1 ^ sip->v2 ^ sip->v3;
}

uint64_t ks_siphash(const uint64_t key[2], ks_view message)
{
    struct ks_ack_sip sip = sip_begin(key);
    size_t i = 0;

    for (; i + 8 <= message.size; i += 8)
        sip_word(&sip, little_endian(message.data + i, 8));
    return sip_end(&sip, (uint64_t)message.size << 56 |
                             little_endian(message.data + i, message.size - i));
}

void ks_ack_key_init(struct ks_ack_key *key, uint64_t boot, uint8_t subscription)
{
    ks_random_bytes(key->key, sizeof(key->key));
    key->boot = (uint32_t)boot;
    key->subscription = subscription;
}

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
    assert(bytes == 8 || value >> (8 * bytes) == 0);
    for (unsigned i = bytes; i > 0; i--)
        *at++ = (uint8_t)(value >> (8 * (i - 1)));
    return at;
}

static uint64_t take(const uint8_t **at, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | *(*at)++;
    return value;
}

static uint8_t *put_head(uint8_t *at, const struct ks_ack_key *key, uint8_t kind,
                         ks_session_id session, uint32_t session_epoch)
{
    at = put(at, kind, 1);
    at = put(at, key->boot, 4);
    at = put(at, key->subscription, 1);
    at = put(at, session, 2);
    return put(at, session_epoch, 4);
}

/* Writes shard, epoch and assignment, which all records of a run have in common. */
static uint8_t *put_shared_place(uint8_t *at, const struct ks_ack_run *run)
{
    assert(run->assignment > 0);
    at = put(at, run->shard, 4);
    at = put(at, run->epoch, EPOCH_BITS / 8);
    return put(at, run->assignment, ASSIGNMENT_BYTES);
}

void ks_ack_stamp_init(struct ks_ack_stamp *stamp, const struct ks_ack_key *key,
                       ks_session_id session, uint32_t session_epoch, const struct ks_ack_run *run)
{
    uint8_t bytes[SHARED_BYTES];
    char text[SHARED_CHARACTERS];
    uint8_t *at = put_head(bytes, key, KIND_ACK, session, session_epoch);
    struct ks_ack_sip sip = sip_begin(key->key);
    size_t size;

    (void)put_shared_place(at, run);
    for (size_t i = 0; i < SHARED_WORDS; i++)
        sip_word(&sip, little_endian(bytes + 8 * i, 8));
    stamp->sip = sip;
    stamp->rest = little_endian(bytes + 8 * SHARED_WORDS, REST_BYTES);
    size = ks_base64url_encode(ks_view_of(bytes, SHARED_BYTES), text);
    assert(size == SHARED_CHARACTERS);
    memcpy(stamp->text, text, SHARED_CHARACTERS);
}

/* Three bytes as four characters of base64url. */
static inline char *put_group(char *at, uint32_t group)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    at[0] = alphabet[group >> 18];
    at[1] = alphabet[group >> 12 & 63];
    at[2] = alphabet[group >> 6 & 63];
    at[3] = alphabet[group & 63];
    return at + 4;
}

/* Once a record: no loop over its bytes. */
void ks_ack_id_write(const struct ks_ack_stamp *stamp, ks_number number,
                     char buffer[KS_ACK_ID_SIZE])
{
    struct ks_ack_sip sip = stamp->sip;
    uint64_t turned_number = __builtin_bswap64(number << (64 - NUMBER_BITS));
    char last[4];
    uint64_t mac;
    char *at = buffer;

    /* The rest of what is shared, then the number: one word and one byte. */
    sip_word(&sip, stamp->rest | turned_number << (8 * REST_BYTES));
    mac = sip_end(&sip, (uint64_t)(ACK_BYTES - MAC_BYTES) << 56 | (number & 0xFF));
    memcpy(at, stamp->text, SHARED_CHARACTERS);
    at += SHARED_CHARACTERS;
    at = put_group(at, (uint32_t)(number >> 24));
    at = put_group(at, (uint32_t)number & 0xFFFFFF);
    at = put_group(at, (uint32_t)(mac >> 40));
    at = put_group(at, (uint32_t)(mac >> 16) & 0xFFFFFF);
    (void)put_group(last, (uint32_t)(mac & 0xFFFF) << 8);
    memcpy(at, last, 3); /* Two bytes are three characters. */
}

size_t ks_batch_id_write(const struct ks_ack_key *key, const struct ks_ack *ack,
                         char buffer[KS_BATCH_ID_MAX + 1])
{
    KS_UNFILLED uint8_t bytes[BATCH_BYTES_MAX];
    KS_UNFILLED char text[KS_BATCH_ID_MAX + 4];
    uint8_t *at = put_head(bytes, key, KIND_BATCH, ack->session, ack->session_epoch);
    size_t size;

    assert(ack->run_count >= 1 && ack->run_count <= KS_BATCH_RUNS_MAX);
    for (uint32_t i = 0; i < ack->run_count; i++) {
        at = put_shared_place(at, &ack->runs[i]);
        at = put(at, ack->runs[i].first, NUMBER_BITS / 8);
        at = put(at, ack->runs[i].count, 4);
    }
    at = put(at, ks_siphash(key->key, ks_view_of(bytes, (size_t)(at - bytes))), MAC_BYTES);
    size = ks_base64url_encode(ks_view_of(bytes, (size_t)(at - bytes)), text);
    assert(size <= KS_BATCH_ID_MAX);
    memcpy(buffer, text, size);
    buffer[size] = '\0';
    return size;
}

/* Decodes and judges everything but the runs. `bytes` has room for the longest id and what the
 * decoder may write beyond. */
static enum ks_ack_status open_id(const struct ks_ack_key *key, ks_view text, uint8_t kind,
                                  uint8_t *bytes, size_t *ret_size, struct ks_ack *ret_ack)
{
    const uint8_t *at = bytes;
    uint8_t mac[MAC_BYTES];
    uint32_t boot;
    size_t size;

    if (text.size < KS_ACK_ID_SIZE || text.size > KS_BATCH_ID_MAX ||
        !ks_ok(ks_base64url_decode(text, bytes, &size)) || size < ACK_BYTES)
        return KS_ACK_ID_MALFORMED;
    if (take(&at, 1) != kind)
        return KS_ACK_ID_MALFORMED;
    boot = (uint32_t)take(&at, 4);
    if (boot != key->boot)
        return KS_ACK_ID_UNKNOWN;
    (void)put(mac, ks_siphash(key->key, ks_view_of(bytes, size - MAC_BYTES)), MAC_BYTES);
    if (!ks_equal_secret(mac, bytes + size - MAC_BYTES, MAC_BYTES))
        return KS_ACK_ID_MALFORMED;
    ret_ack->subscription = (uint8_t)take(&at, 1);
    if (ret_ack->subscription != key->subscription)
        return KS_ACK_ID_ELSEWHERE;
    ret_ack->session = (ks_session_id)take(&at, 2);
    ret_ack->session_epoch = (uint32_t)take(&at, 4);
    *ret_size = size;
    return KS_ACK_ID_OK;
}

static void take_place(const uint8_t **at, struct ks_ack_run *run)
{
    run->shard = (ks_shard)take(at, 4);
    run->epoch = take(at, EPOCH_BITS / 8);
    run->assignment = take(at, ASSIGNMENT_BYTES);
    run->first = take(at, NUMBER_BITS / 8);
}

enum ks_ack_status ks_ack_id_read(const struct ks_ack_key *key, ks_view text,
                                  struct ks_ack *ret_ack)
{
    KS_UNFILLED uint8_t bytes[BATCH_BYTES_MAX + 64];
    const uint8_t *at = bytes + HEAD_BYTES;
    enum ks_ack_status status;
    size_t size;

    if (text.size != KS_ACK_ID_SIZE)
        return KS_ACK_ID_MALFORMED;
    status = open_id(key, text, KIND_ACK, bytes, &size, ret_ack);
    if (status != KS_ACK_ID_OK)
        return status;
    assert(size == ACK_BYTES);
    ret_ack->run_count = 1;
    ret_ack->runs[0].count = 1;
    take_place(&at, &ret_ack->runs[0]);
    return KS_ACK_ID_OK;
}

enum ks_ack_status ks_batch_id_read(const struct ks_ack_key *key, ks_view text,
                                    struct ks_ack *ret_ack)
{
    KS_UNFILLED uint8_t bytes[BATCH_BYTES_MAX + 64];
    const uint8_t *at = bytes + HEAD_BYTES;
    enum ks_ack_status status;
    size_t size;

    status = open_id(key, text, KIND_BATCH, bytes, &size, ret_ack);
    if (status != KS_ACK_ID_OK)
        return status;
    size -= HEAD_BYTES + MAC_BYTES;
    if (size == 0 || size % RUN_BYTES != 0 || size / RUN_BYTES > KS_BATCH_RUNS_MAX)
        return KS_ACK_ID_MALFORMED;
    ret_ack->run_count = (uint32_t)(size / RUN_BYTES);
    for (uint32_t i = 0; i < ret_ack->run_count; i++) {
        take_place(&at, &ret_ack->runs[i]);
        ret_ack->runs[i].count = (uint32_t)take(&at, 4);
    }
    return KS_ACK_ID_OK;
}
