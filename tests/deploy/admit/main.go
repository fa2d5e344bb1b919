// SPDX-License-Identifier: Apache-2.0

// Admit applies a MutatingAdmissionPolicy to a pod, as the API server does, and prints the result as JSON:
//
//	admit POLICY.yaml OPENAPI.json < POD.json
//
// It compiles and evaluates the CEL expressions with the API server's own packages, and merges by the OpenAPI document (v3) of
// the API group of pods. It prints the pod unchanged if a match condition is false. It does not judge matchConstraints.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/yaml"
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

func main() {
	if err := admit(); err != nil {
		fmt.Fprintln(os.Stderr, "admit:", err)
		os.Exit(1)
	}
}

func admit() error {
	policy, pod, err := read()
	if err != nil {
		return err
	}
	converter, err := converterOf(os.Args[2])
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	options := cel.OptionalVariableDeclarations{HasParams: policy.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		return err
	}
	var variables []cel.NamedExpressionAccessor
	for _, variable := range policy.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: variable.Name, Expression: variable.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	ctx := compiler.CreateContext(context.Background())

	var object runtime.Object = pod
	var conditions []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	if len(conditions) > 0 {
		fail := v1.Fail
		matcher := matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.StoredExpressions),
			&fail, "policy", "validate", policy.Name)
		result := matcher.Match(ctx, attributes(object), nil, nil)
		if result.Error != nil {
			return result.Error
		}
		if !result.Matches {
			return show(object)
		}
	}
	options.HasPatchTypes = true
	for _, mutation := range policy.Spec.Mutations {
		object, err = patcherOf(compiler, options, mutation).Patch(ctx, patch.Request{
			MatchedResource:     pods,
			VersionedAttributes: attributes(object),
			ObjectInterfaces:    admission.NewObjectInterfacesFromScheme(scheme),
			Namespace:           &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
			TypeConverter:       converter,
		}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			return err
		}
	}
	return show(object)
}

func patcherOf(compiler *cel.CompositedCompiler, options cel.OptionalVariableDeclarations, mutation v1.Mutation) patch.Patcher {
	if mutation.JSONPatch != nil {
		accessor := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
		return patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(accessor, options, environment.StoredExpressions))
	}
	accessor := &patch.ApplyConfigurationCondition{Expression: mutation.ApplyConfiguration.Expression}
	return patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(accessor, options, environment.StoredExpressions))
}

func read() (*v1.MutatingAdmissionPolicy, *unstructured.Unstructured, error) {
	if len(os.Args) != 3 {
		return nil, nil, fmt.Errorf("usage: admit POLICY.yaml OPENAPI.json < POD.json")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return nil, nil, err
	}
	policy := &v1.MutatingAdmissionPolicy{}
	if err := yaml.UnmarshalStrict(text, policy); err != nil {
		return nil, nil, err
	}
	pod := &unstructured.Unstructured{}
	return policy, pod, json.NewDecoder(os.Stdin).Decode(&pod.Object)
}

func attributes(object runtime.Object) *admission.VersionedAttributes {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	record := admission.NewAttributesRecord(object, nil, kind, "default", "pod", pods, "", admission.Create,
		&metav1.CreateOptions{}, false, nil)
	return &admission.VersionedAttributes{
		Attributes:         record,
		VersionedKind:      kind,
		VersionedObject:    admission.NewLazyObject(object),
		VersionedOldObject: admission.NewLazyObject(nil),
	}
}

func converterOf(schemas string) (managedfields.TypeConverter, error) {
	text, err := os.ReadFile(schemas)
	if err != nil {
		return nil, err
	}
	document := &spec3.OpenAPI{}
	if err := json.Unmarshal(text, document); err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(document.Components.Schemas, false)
}

func show(object runtime.Object) error {
	return json.NewEncoder(os.Stdout).Encode(object)
}
