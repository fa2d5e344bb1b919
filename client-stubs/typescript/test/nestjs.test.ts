// SPDX-License-Identifier: Apache-2.0
import "reflect-metadata";
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import type { DynamicModule } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { SidecarError } from "kinesis-sidecar";
import { KinesisSidecarModule } from "kinesis-sidecar/nestjs";
import { ScriptedSidecar, answerJson, problem, recordFrame, until } from "./scripted.js";

class Orders {
    readonly saved: string[] = [];

    save(sequenceNumber: string): void {
        this.saved.push(sequenceNumber);
    }
}

class OrdersModule {}
class AppModule {}

let sidecar: ScriptedSidecar;
const orders: DynamicModule = { module: OrdersModule, providers: [Orders], exports: [Orders] };

beforeEach(async () => {
    sidecar = await new ScriptedSidecar().start();
});

afterEach(() => sidecar.stop());

function appOf(more: { onFailure?: (error: unknown) => void } = {}) {
    const consumer = KinesisSidecarModule.register({
        clientId: "orders",
        url: sidecar.url,
        concurrency: 4,
        imports: [orders],
        inject: [Orders],
        useFactory: (service: Orders) => (record) => service.save(record.sequenceNumber),
        ...more,
    });
    return NestFactory.createApplicationContext({ module: AppModule, imports: [orders, consumer] }, { logger: false });
}

test("module_runs_the_handler_with_injected_services_until_shutdown", async () => {
    const app = await appOf();
    await until("the stream is open", () => sidecar.streams.length === 1);
    sidecar.write(recordFrame({ n: 1 }));
    await until("the record is saved", () => app.get(Orders, { strict: false }).saved.length === 1);
    await app.close();
    assert.deepEqual(app.get(Orders, { strict: false }).saved, ["1001"]);
    assert.equal(sidecar.items().length, 1);
    assert.equal(sidecar.deleted, 1);
});

test("refused_stream_is_given_to_on_failure", async () => {
    sidecar.onStream = (response) => answerJson(response, 404, problem(404));
    let failure: unknown;
    const app = await appOf({ onFailure: (error) => (failure = error) });
    await until("the run has failed", () => failure !== undefined);
    assert.ok(failure instanceof SidecarError);
    await app.close();
});
