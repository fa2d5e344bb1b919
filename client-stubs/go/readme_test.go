// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const readmeModule = `module readme

go 1.24

require github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go v0.0.0

replace github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go => %s
`

func TestReadme_snippets_compile_and_their_tests_pass(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "go.mod"), fmt.Sprintf(readmeModule, here))
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	for i, snippet := range snippets {
		name := "snippet.go"
		if strings.Contains(snippet[1], "*testing.T") {
			name = "snippet_test.go"
		}
		write(t, filepath.Join(folder, fmt.Sprintf("snippet%d", i), name), snippet[1])
	}
	for _, command := range []string{"vet", "test"} {
		compiler := exec.Command("go", command, "./...")
		compiler.Dir = folder
		if said, err := compiler.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", command, err, said)
		}
	}
	if len(snippets) < 4 {
		t.Errorf("got %d snippets", len(snippets))
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
