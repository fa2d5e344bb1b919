// SPDX-License-Identifier: Apache-2.0
// Names that the examples of the README leave to their reader.
import type * as kinesisSidecar from "kinesis-sidecar";

declare global {
    interface Order {
        id: number;
    }

    class OrdersService {
        save(order: Order): Promise<void>;
    }

    class OrdersModule {}

    const Module: typeof import("@nestjs/common").Module;
    const assert: typeof import("node:assert/strict");
    const client: kinesisSidecar.TransactionClient;
    const consumer: kinesisSidecar.Consumer;
    const handler: kinesisSidecar.Handler;
    function save(order: Order | Buffer): Promise<void>;
    function saveAll(records: kinesisSidecar.KinesisRecord[]): Promise<void>;
}
