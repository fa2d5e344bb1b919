// SPDX-License-Identifier: Apache-2.0
// applyOnce against PostgreSQL, compiled to WebAssembly.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PGlite } from "@electric-sql/pglite";
import { APPLIED_TABLE, applyOnce, type KinesisRecord } from "kinesis-sidecar";
import { TestConsumer } from "kinesis-sidecar/testing";

let database: PGlite;

before(async () => {
    database = await PGlite.create();
    await database.query(APPLIED_TABLE);
    await database.query("CREATE TABLE total (amount int NOT NULL)");
    await database.query("INSERT INTO total VALUES (0)");
});

after(() => database.close());

const total = async () => (await database.query<{ amount: number }>("SELECT amount FROM total")).rows[0]!.amount;
const record = (sequenceNumber: string, subSequenceNumber = 0): KinesisRecord =>
    new TestConsumer().put({ sequenceNumber, subSequenceNumber })[0]!;
const add = (connection: PGlite) => connection.query("UPDATE total SET amount = amount + 1");

test("effect_runs_once_for_two_deliveries", async () => {
    const sequenceNumber = "49590338271490256608559692538361571095921575989136588898";
    assert.equal(await applyOnce(database, "orders", record(sequenceNumber), add), true);
    assert.equal(await applyOnce(database, "orders", record(sequenceNumber), add), false);
    assert.equal(await total(), 1);
    assert.equal(await applyOnce(database, "orders", record(sequenceNumber, 1), add), true);
    assert.equal(await applyOnce(database, "invoices", record(sequenceNumber), add), true);
    assert.equal(await total(), 3);
});

test("failed_effect_leaves_nothing_and_may_run_again", async () => {
    const before = await total();
    const fail = async (connection: PGlite) => {
        await add(connection);
        throw new Error("broken");
    };
    await assert.rejects(applyOnce(database, "orders", record("7"), fail), /broken/);
    assert.equal(await total(), before);
    assert.equal(await applyOnce(database, "orders", record("7"), add), true);
    assert.equal(await total(), before + 1);
});
