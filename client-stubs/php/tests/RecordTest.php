<?php

// SPDX-License-Identifier: Apache-2.0

declare(strict_types=1);

namespace KinesisSidecar\Tests;

use KinesisSidecar\Internal\Line;
use KinesisSidecar\Internal\Options;
use PHPUnit\Framework\TestCase;

final class RecordTest extends TestCase
{
    public function testDataBeforeOtherMembersIsRead(): void
    {
        $line = Line::of(['ack_id' => 'a', 'batch_id' => 'b', 'data' => base64_encode('bytes'), 'redriven' => true]);
        $this->assertSame('bytes', Line::data($line));
        $this->assertTrue(Line::head($line)['redriven']);
    }

    public function testQuotesInThePartitionKeyAreNoMembers(): void
    {
        $key = '","data":"","shard_id":"other","attempt":7,"';
        $line = Line::of(['ack_id' => 'a', 'partition_key' => $key, 'shard_id' => 's', 'data' => 'aGk=']);
        $this->assertSame('hi', Line::data($line));
        $this->assertSame('s', Line::raw($line, 'shard_id'));
        $this->assertSame('', Line::raw($line, 'attempt'));
        $this->assertSame($key, Line::head($line)['partition_key']);
    }

    public function testLargeRecordIsRead(): void
    {
        $data = random_bytes(10 * 1024 * 1024);
        $this->assertSame($data, Line::data(Line::of(['ack_id' => 'a', 'data' => base64_encode($data)])));
    }

    public function testWrongOptionsAreRefusedBeforeAnythingIsOpened(): void
    {
        $wrong = [['url' => 'https://here'], ['url' => 'unix:here'], ['ordering' => 'strict'], ['clientId' => '']];
        foreach ($wrong as $options) {
            try {
                new \KinesisSidecar\Consumer(...$options + ['clientId' => 'test']);
                $this->fail('accepted: ' . json_encode($options));
            } catch (\InvalidArgumentException $error) {
                $this->assertStringContainsString(' must be ', $error->getMessage());
            }
        }
    }

    public function testConcurrencySetsOrderingAndLanes(): void
    {
        $options = new Options('test', 1, 1, 1.0, 1.0, 0.1, null, null, [], null, 'http://localhost:1', null);
        parse_str(parse_url($options->forConcurrency(4)->streamPath(), PHP_URL_QUERY), $query);
        $this->assertSame(['key', '64'], [$query['ordering'], $query['lanes']]);
        parse_str(parse_url($options->forConcurrency(1)->streamPath(), PHP_URL_QUERY), $query);
        $this->assertArrayNotHasKey('ordering', $query);
    }
}
