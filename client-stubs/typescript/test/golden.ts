// SPDX-License-Identifier: Apache-2.0
// The golden frames of the protocol, made by another implementation of protobuf.
import { readFileSync } from "node:fs";

const FOLDER = process.env.KINESIS_SIDECAR_GOLDEN ?? "../../proto/golden";

export function golden(name: string): Buffer {
    return readFileSync(`${FOLDER}/${name}.bin`);
}
