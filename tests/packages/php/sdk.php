<?php

// sdk.php COUNT - reads COUNT records of the stream `demo` from Kinesis itself, and prints their number after each 1,000.
// SPDX-License-Identifier: Apache-2.0

// This is a plain HTTP loop, not the AWS SDK for PHP: the test machines do not reach packagist.org. It does less work than
// the SDK, which also makes request and result objects, retries, and calls middleware. It uses no extension but ext-json.

declare(strict_types=1);

const STREAM = 'demo';
const LIMIT = 10000;
const IDLE_MICROSECONDS = 200000;

/**
 * Calls Kinesis over one connection that stays open.
 */
final class Kinesis
{
    private readonly string $host;

    /** @var resource */
    private readonly mixed $socket;

    public function __construct(
        string $url,
        private readonly string $region,
        private readonly string $accessKey,
        private readonly string $secretKey,
    ) {
        $parts = parse_url($url);
        $this->host = "{$parts['host']}:{$parts['port']}";
        $this->socket = stream_socket_client("tcp://$this->host") ?: throw new RuntimeException("no connection to $url");
    }

    /**
     * @param array<string, mixed> $members
     *
     * @return array<string, mixed>
     */
    public function call(string $operation, array $members): array
    {
        $body = json_encode($members, JSON_THROW_ON_ERROR);
        $headers = [
            'content-type' => 'application/x-amz-json-1.1',
            'host' => $this->host,
            'x-amz-date' => gmdate('Ymd\THis\Z'),
            'x-amz-target' => "Kinesis_20131202.$operation",
        ];
        $headers['authorization'] = $this->authorization($headers, $body);
        $headers['content-length'] = strlen($body);
        $request = "POST / HTTP/1.1\r\n";
        foreach ($headers as $name => $value) {
            $request .= "$name: $value\r\n";
        }
        fwrite($this->socket, "$request\r\n$body");

        return $this->answer($operation);
    }

    /**
     * Signs a request by Signature Version 4.
     *
     * @param array<string, string> $headers sorted by name
     */
    private function authorization(array $headers, string $body): string
    {
        $lines = '';
        foreach ($headers as $name => $value) {
            $lines .= "$name:$value\n";
        }
        $names = implode(';', array_keys($headers));
        $request = "POST\n/\n\n$lines\n$names\n" . hash('sha256', $body);
        $date = $headers['x-amz-date'];
        $parts = [substr($date, 0, 8), $this->region, 'kinesis', 'aws4_request'];
        $scope = implode('/', $parts);
        $key = "AWS4$this->secretKey";
        foreach ($parts as $part) {
            $key = hash_hmac('sha256', $part, $key, true);
        }
        $signature = hash_hmac('sha256', "AWS4-HMAC-SHA256\n$date\n$scope\n" . hash('sha256', $request), $key);

        return "AWS4-HMAC-SHA256 Credential=$this->accessKey/$scope, SignedHeaders=$names, Signature=$signature";
    }

    /** @return array<string, mixed> empty if Kinesis throttles the call */
    private function answer(string $operation): array
    {
        $status = (int) substr($this->line(), strlen('HTTP/1.1 '), 3);
        $length = 0;
        while (($line = $this->line()) !== '') {
            [$name, $value] = explode(':', $line, 2);
            $length = strcasecmp($name, 'content-length') === 0 ? (int) $value : $length;
        }
        $body = $length > 0 ? stream_get_contents($this->socket, $length) : '';
        if ($status === 200) {
            return json_decode($body, true, 16, JSON_THROW_ON_ERROR);
        }
        $isThrottled = str_contains($body, 'ProvisionedThroughputExceededException');

        return $isThrottled ? [] : throw new RuntimeException("$operation: $status $body");
    }

    private function line(): string
    {
        $line = fgets($this->socket);

        return $line === false ? throw new RuntimeException('the connection ended') : rtrim($line, "\r\n");
    }
}

/** @return list<string> */
function iterators(Kinesis $kinesis): array
{
    $shards = $kinesis->call('ListShards', ['StreamName' => STREAM])['Shards'];

    return array_map(static fn (array $shard): string => $kinesis->call('GetShardIterator', [
        'StreamName' => STREAM,
        'ShardId' => $shard['ShardId'],
        'ShardIteratorType' => 'TRIM_HORIZON',
    ])['ShardIterator'], $shards);
}

$wanted = (int) $argv[1];
$kinesis = new Kinesis(
    getenv('AWS_ENDPOINT_URL_KINESIS'),
    getenv('AWS_REGION') ?: 'us-east-1',
    getenv('AWS_ACCESS_KEY_ID') ?: 'none',
    getenv('AWS_SECRET_ACCESS_KEY') ?: 'none',
);
$iterators = iterators($kinesis);
$count = $bytes = 0;
while ($count < $wanted) {
    $before = $count;
    foreach ($iterators as $at => $iterator) {
        $answer = $kinesis->call('GetRecords', ['ShardIterator' => $iterator, 'Limit' => LIMIT]);
        foreach ($answer['Records'] ?? [] as $record) {
            $bytes += strlen(base64_decode($record['Data']));
            if (++$count % 1000 === 0) {
                fwrite(STDOUT, "$count\n");
            }
        }
        if (isset($answer['Records'])) {
            $iterators[$at] = $answer['NextShardIterator'] ?? null;
        }
    }
    $iterators = array_filter($iterators);
    $count > $before || usleep(IDLE_MICROSECONDS);
}
