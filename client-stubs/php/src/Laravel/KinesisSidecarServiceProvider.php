<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Laravel;

use Illuminate\Support\ServiceProvider;

/**
 * Registers the artisan command `kinesis-sidecar:consume`.
 */
final class KinesisSidecarServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        if ($this->app->runningInConsole()) {
            $this->commands([ConsumeCommand::class]);
        }
    }
}
