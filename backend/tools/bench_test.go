package tools

import (
	"encoding/json"
	"fmt"
	"helix/backend/schema"
	"os"
	"strings"
	"testing"
)

// fiftyFields returns a schema of 50 fields and matching parameters of about 4 KB.
func fiftyFields() (schemaText, params string) {
	props, values := []string{}, []string{}
	for i := range 50 {
		switch i % 4 {
		case 0:
			props = append(props, fmt.Sprintf(`"field%02d":{"type":"string","minLength":1,"maxLength":200}`, i))
			values = append(values, fmt.Sprintf(`"field%02d":"%s"`, i, strings.Repeat("text ", 40)))
		case 1:
			props = append(props, fmt.Sprintf(`"field%02d":{"type":"integer","minimum":0,"maximum":1000}`, i))
			values = append(values, fmt.Sprintf(`"field%02d":%d`, i, i))
		case 2:
			props = append(props, fmt.Sprintf(`"field%02d":{"type":"array","items":{"type":"number"},"maxItems":10}`, i))
			values = append(values, fmt.Sprintf(`"field%02d":[1,2.5,3,4]`, i))
		default:
			props = append(props, fmt.Sprintf(`"field%02d":{"type":"string","pattern":"^[a-z]+-[0-9]+$"}`, i))
			values = append(values, fmt.Sprintf(`"field%02d":"abc-%d"`, i, i))
		}
	}
	return `{"type":"object","required":["field00"],"additionalProperties":false,"properties":{` + strings.Join(props, ",") + `}}`, "{" + strings.Join(values, ",") + "}"
}

func BenchmarkParams(b *testing.B) {
	text, params := fiftyFields()
	if dir := os.Getenv("HELIX_BENCH_OUT"); dir != "" { // for the comparison
		_ = os.WriteFile(dir+"/schema.json", []byte(text), 0o600)
		_ = os.WriteFile(dir+"/params.json", []byte(params), 0o600)
	}
	s, err := schema.Compile([]byte(text))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(params)))
	for b.Loop() {
		if _, err := apply(b.Context(), s, json.RawMessage(params)); err != nil {
			b.Fatal(err)
		}
	}
}

// bigSource returns 116 KB of ordinary JavaScript.
func bigSource() string {
	var s strings.Builder
	s.WriteString("export default function (params, helix) { return f0(params); }\n")
	for i := 0; s.Len() < 116<<10; i++ {
		fmt.Fprintf(&s, "// Part %d adds what the others left.\nfunction f%d(p) {\n  const list = [1, 2, 3].map((x) => x * %d);\n  if (p && p.name) {\n    return { name: `${p.name} no. %d`, total: list.reduce((a, b) => a + b, 0) };\n  }\n  for (let i = 0; i < list.length; i++) {\n    list[i] += /a(b|c)+/.test(String(i)) ? 1 : 2;\n  }\n  return list;\n}\n", i, i, i, i)
	}
	return s.String()
}

func BenchmarkAnalyse(b *testing.B) {
	check := checker{box: engine.open(b)}
	code := bigSource()
	if dir := os.Getenv("HELIX_BENCH_OUT"); dir != "" {
		_ = os.WriteFile(dir+"/big.js", []byte(code), 0o600)
	}
	b.SetBytes(int64(len(code)))
	for b.Loop() {
		if a := check.analyse(b.Context(), code, JavaScript); len(a.errors) > 0 {
			b.Fatal(a.errors)
		}
	}
}

func BenchmarkExecute(b *testing.B) {
	s := setup(b)
	tool := s.create(b, CreateParams{Code: "return {n: params.items.length, sum: params.items.reduce((a, x) => a + x, 0)}"})
	s.run(b, tool, `{"items":[1,2,3]}`)
	var inside float64
	for b.Loop() {
		inside += s.run(b, tool, `{"items":[1,2,3]}`).ExecutionTimeMs
	}
	b.ReportMetric(inside*1e6/float64(b.N), "sandbox-ns/op")
}
