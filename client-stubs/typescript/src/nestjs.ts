// SPDX-License-Identifier: Apache-2.0
// A module for NestJS: it runs a consumer from the start of the app to its shutdown.
import type { DynamicModule, FactoryProvider, ModuleMetadata } from "@nestjs/common";
import { Consumer, type ConsumerOptions } from "./consumer.js";
import type { Handler } from "./handlers.js";

export interface KinesisSidecarModuleOptions extends ConsumerOptions {
    /** Name of the consumer. */
    clientId: string;
    /** Handlers that run at the same time. Default: 1. */
    concurrency?: number;
    /** Modules that export what is injected. */
    imports?: NonNullable<ModuleMetadata["imports"]>;
    /** What `useFactory` gets, in this order. */
    inject?: NonNullable<FactoryProvider["inject"]>;
    /** Returns the handler of records. */
    useFactory: (...injected: any[]) => Handler | Promise<Handler>;
    /** Gets the error that ends the run. Default: it becomes an uncaught exception, which ends the process. */
    onFailure?: (error: unknown) => void;
}

/** Runs the consumer between the hooks of the app. */
class ConsumerRunner {
    private running: Promise<void> = Promise.resolve();

    constructor(
        private readonly consumer: Consumer,
        private readonly handler: Handler,
        private readonly concurrency: number,
        private readonly onFailure: (error: unknown) => void,
    ) {}

    onApplicationBootstrap(): void {
        const options = { concurrency: this.concurrency, signals: false };
        this.running = this.consumer.run(this.handler, options).catch(this.onFailure);
    }

    async beforeApplicationShutdown(): Promise<void> {
        this.consumer.stop();
        await this.running;
    }
}

function throwUncaught(error: unknown): void {
    process.nextTick(() => {
        throw error;
    });
}

export class KinesisSidecarModule {
    /** Returns a module for one consumer. Call `app.enableShutdownHooks()`, so that SIGTERM stops it. */
    static register(options: KinesisSidecarModuleOptions): DynamicModule {
        const { clientId, concurrency = 1, imports = [], inject = [], useFactory, onFailure, ...rest } = options;
        const runner: FactoryProvider = {
            provide: `kinesis-sidecar:${clientId}`,
            inject,
            useFactory: async (...injected: unknown[]) => {
                const handler = await useFactory(...injected);
                return new ConsumerRunner(
                    new Consumer(clientId, rest),
                    handler,
                    concurrency,
                    onFailure ?? throwUncaught,
                );
            },
        };
        return { module: KinesisSidecarModule, imports, providers: [runner] };
    }
}
