<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Outcome;
use KinesisSidecar\Testing\FakeConsumer;
use PHPUnit\Framework\TestCase;

/**
 * The PHP examples of README.md, with a consumer that has records.
 */
final class ReadmeTest extends TestCase
{
    private FakeConsumer $consumer;

    protected function setUp(): void
    {
        $this->consumer = new FakeConsumer('orders');
        $this->consumer->put([5, 7]);
    }

    /** @return list<string> */
    private static function examples(): array
    {
        preg_match_all('/^```php\n(.*?)^```$/ms', file_get_contents(dirname(__DIR__) . '/README.md'), $found);

        return $found[1];
    }

    /**
     * Runs the only example that contains the text, with the consumer of this test.
     *
     * @param array<string, mixed> $variables
     */
    private function play(string $text, array $variables = []): void
    {
        $found = array_values(array_filter(self::examples(), static fn ($example) => str_contains($example, $text)));
        $this->assertCount(1, $found, $text);
        $example = str_replace("new Consumer('orders')", '$consumer', $found[0]);
        $file = tempnam(sys_get_temp_dir(), 'kinesis-sidecar-test-');
        $uses = str_contains($example, 'use KinesisSidecar\Record;') ? '' : 'use KinesisSidecar\Record;';
        $helpers = 'if (!function_exists("save")) { function save($value) {} function saveAll($records) {} }';
        file_put_contents($file, "<?php\n$helpers\n$uses\n$example");
        $consumer = $this->consumer;
        $run = static function () use ($file, $consumer, $variables): void {
            extract($variables);
            require $file;
        };
        try {
            $run();
        } finally {
            unlink($file);
        }
    }

    private function assertAcknowledged(): void
    {
        $this->assertSame([Outcome::Ack], array_column($this->consumer->outcomes(), 'outcome'));
    }

    public function testExamplesAreAllRun(): void
    {
        $this->assertCount(4, self::examples());
    }

    public function testRun(): void
    {
        $this->play('concurrency: 4');
        $this->assertAcknowledged();
    }

    public function testLoops(): void
    {
        $this->play('->batches(');
        $this->assertAcknowledged();
    }

    public function testApplyOnce(): void
    {
        $pdo = new \PDO('sqlite::memory:');
        $pdo->exec('CREATE TABLE account (id INTEGER, amount INTEGER)');
        $pdo->exec('INSERT INTO account VALUES (7, 10)');
        $this->play('applyOnce', ['pdo' => static fn (): \PDO => $pdo]);
        $this->assertAcknowledged();
        $this->assertSame(15, (int) $pdo->query('SELECT amount FROM account')->fetchColumn());
    }

    public function testFakeConsumer(): void
    {
        class_exists('OrderHandler', false) || class_alias(ReadmeHandler::class, 'OrderHandler');
        $this->play('new KinesisSidecar\Testing\FakeConsumer');
        $this->assertSame([['id' => 1]], ReadmeHandler::$handled);
    }
}
