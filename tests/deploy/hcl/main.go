// SPDX-License-Identifier: Apache-2.0

// hcl MODULE LOCAL - evaluates one local value of a Terraform module as JSON, without Terraform and its providers.
//
// Each line of stdin is a JSON object of variables, each line of stdout the value. It complains of a file that is not
// written as `terraform fmt` writes it, of a variable that the module does not have, and of a reference that it cannot
// find: to a resource for example.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

type module struct {
	folder    string
	variables map[string]cty.Value // Defaults; NilVal: required.
	locals    map[string]hcl.Expression
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func check(diagnostics hcl.Diagnostics) {
	if diagnostics.HasErrors() {
		fail("%s", diagnostics)
	}
}

func (m *module) read(block *hclsyntax.Block) {
	switch block.Type {
	case "variable":
		value := cty.NilVal
		if preset, found := block.Body.Attributes["default"]; found {
			known, diagnostics := preset.Expr.Value(nil)
			check(diagnostics)
			value = known
		}
		m.variables[block.Labels[0]] = value
	case "locals":
		for name, attribute := range block.Body.Attributes {
			m.locals[name] = attribute.Expr
		}
	}
}

func load(folder string) *module {
	m := &module{folder, map[string]cty.Value{}, map[string]hcl.Expression{}}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.tf"))
	parser := hclparse.NewParser()
	for _, path := range paths {
		file, diagnostics := parser.ParseHCLFile(path)
		check(diagnostics)
		if !bytes.Equal(hclwrite.Format(file.Bytes), file.Bytes) {
			fail("%s: not formatted: terraform fmt", path)
		}
		for _, block := range file.Body.(*hclsyntax.Body).Blocks {
			m.read(block)
		}
	}
	return m
}

func (m *module) functions() map[string]function.Function {
	return map[string]function.Function{
		"contains": stdlib.ContainsFunc, "jsondecode": stdlib.JSONDecodeFunc, "length": stdlib.LengthFunc,
		"split": stdlib.SplitFunc,
		"file": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type:   function.StaticReturnType(cty.String),
			Impl: func(arguments []cty.Value, _ cty.Type) (cty.Value, error) {
				text, err := os.ReadFile(arguments[0].AsString())
				return cty.StringVal(string(text)), err
			},
		}),
	}
}

// Evaluates a local value, those that it needs first.
func (m *module) value(name string, context *hcl.EvalContext, known map[string]cty.Value) cty.Value {
	if value, found := known[name]; found {
		return value
	}
	expression, found := m.locals[name]
	if !found {
		fail("there is no local.%s", name)
	}
	for _, traversal := range expression.Variables() {
		if traversal.RootName() == "local" {
			m.value(traversal[1].(hcl.TraverseAttr).Name, context, known)
		}
	}
	context.Variables["local"] = cty.ObjectVal(known)
	value, diagnostics := expression.Value(context)
	check(diagnostics)
	known[name] = value
	return value
}

func (m *module) context(line []byte) *hcl.EvalContext {
	kind, err := ctyjson.ImpliedType(line)
	if err != nil {
		fail("%s", err)
	}
	given, err := ctyjson.Unmarshal(line, kind)
	if err != nil {
		fail("%s", err)
	}
	variables := map[string]cty.Value{}
	for name, preset := range m.variables {
		variables[name] = preset
	}
	for name, value := range given.AsValueMap() {
		if _, found := variables[name]; !found {
			fail("there is no variable %s", name)
		}
		variables[name] = value
	}
	for name, value := range variables {
		if value == cty.NilVal {
			fail("variable %s is not given", name)
		}
	}
	return &hcl.EvalContext{Functions: m.functions(), Variables: map[string]cty.Value{
		"var":  cty.ObjectVal(variables),
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(m.folder)}),
	}}
}

func main() {
	if len(os.Args) != 3 {
		fail("hcl MODULE LOCAL")
	}
	m := load(os.Args[1])
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		value := m.value(os.Args[2], m.context(lines.Bytes()), map[string]cty.Value{})
		text, err := ctyjson.Marshal(value, value.Type())
		if err != nil {
			fail("%s", err)
		}
		fmt.Println(string(text))
	}
}
