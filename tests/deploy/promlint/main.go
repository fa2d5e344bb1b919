// SPDX-License-Identifier: Apache-2.0

// Promlint reads metrics in the text format of Prometheus from stdin, and prints what promlint finds in them: one finding
// a line, exit status 1 then.
package main

import (
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func main() {
	problems, err := promlint.New(os.Stdin).Lint()
	if err != nil {
		fmt.Fprintln(os.Stderr, "promlint:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Printf("%s: %s\n", problem.Metric, problem.Text)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
