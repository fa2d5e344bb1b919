<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

// laravel.php COMMAND.. - an artisan with the package's service provider and nothing else. Laravel comes from the
// include path.

use Illuminate\Console\Application as Artisan;
use Illuminate\Foundation\Application;
use KinesisSidecar\Laravel\KinesisSidecarServiceProvider;
use KinesisSidecar\Record;

// Laravel 8 is older than PHP 8.2.
error_reporting(E_ALL & ~E_DEPRECATED);
require __DIR__ . '/bootstrap.php';
require 'Illuminate/autoload.php';

final class PrintRecords
{
    public function handle(Record $record): void
    {
        fwrite(STDOUT, "record {$record->data}\n");
    }
}

$laravel = new Application(sys_get_temp_dir());
$laravel->register(KinesisSidecarServiceProvider::class);
$laravel->boot();
$artisan = new Artisan($laravel, $laravel->make('events'), $laravel->version());
exit($artisan->run());
