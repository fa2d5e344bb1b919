// SPDX-License-Identifier: Apache-2.0
// Runs the compiled tests one file after the other: their sidecars share the machine.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../dist/test/", import.meta.url));
const wanted = process.argv.slice(2);
const files = readdirSync(folder).filter((name) => name.endsWith(".test.js"));
for (const name of files.filter((each) => wanted.length === 0 || wanted.some((part) => each.includes(part)))) {
  const { status } = spawnSync(process.execPath, ["--test", folder + name], { stdio: "inherit" });
  if (status !== 0) process.exitCode = 1;
}
