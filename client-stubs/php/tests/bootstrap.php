<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

// Autoload of the package and of its tests, as composer does it; the package has no dependencies.
spl_autoload_register(static function (string $class): void {
    $folders = ['KinesisSidecar\\Tests\\' => __DIR__, 'KinesisSidecar\\' => dirname(__DIR__) . '/src'];
    foreach ($folders as $prefix => $folder) {
        $file = $folder . '/' . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;

            return;
        }
    }
});
require dirname(__DIR__) . '/src/functions.php';
