// SPDX-License-Identifier: Apache-2.0
// Writes each example of the README to dist/readme, so that tsconfig.readme.json checks it.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const folder = new URL("../dist/readme/", import.meta.url);
const text = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const examples = [...text.matchAll(/^```ts\n(.*?)^```/gms)];
if (examples.length === 0) throw new Error("the README has no example");
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
// Without an import or an export the file would not be a module.
for (const [at, [, code]] of examples.entries()) writeFileSync(new URL(`${at + 1}.ts`, folder), `${code}export {};\n`);
