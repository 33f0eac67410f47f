package sandbox

import (
	"context"
	"encoding/json"
	"testing"
)

func BenchmarkInstance(b *testing.B) {
	for b.Loop() {
		g, err := shared.instance()
		if err != nil {
			b.Fatal(err)
		}
		g.in.Close()
	}
}

func benchRun(b *testing.B, text string, c Call) {
	p := compile(b, text)
	b.ResetTimer()
	for b.Loop() {
		if _, err := shared.Execute(context.Background(), p, c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHello(b *testing.B) { benchRun(b, "return 42", Call{}) }

func BenchmarkJSON(b *testing.B) {
	benchRun(b, "export default async (p) => ({ n: p.list.length, sum: p.list.reduce((a, x) => a + x.v, 0) })", Call{
		Input: json.RawMessage(`{"list":[{"v":1},{"v":2},{"v":3}]}`),
	})
}

func BenchmarkFib(b *testing.B) {
	benchRun(b, "const f = (n) => (n < 2 ? n : f(n - 1) + f(n - 2)); return f(22)", Call{})
}

func BenchmarkCompile(b *testing.B) {
	ctx := context.Background()
	text := "export default async function (params: { n: number }, helix: any) {\n  const x: number = params.n * 2;\n  return { x };\n}\n"
	for i := 0; b.Loop(); i++ {
		if _, err := shared.CompileJS(ctx, Source{Text: text + "//" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)), Language: TypeScript}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkItems runs the same tool as build/bench/tools.
func BenchmarkItems(b *testing.B) {
	list := []map[string]any{}
	for i := range 20 {
		list = append(list, map[string]any{"name": "item " + string(rune('a'+i)), "price": float64(i) * 1.5, "count": i})
	}
	benchRun(b, `const items = params.items.map((x) => ({ ...x, total: x.price * x.count }));
return { items, sum: items.reduce((a, x) => a + x.total, 0), count: items.length };`, Call{Input: input(map[string]any{"items": list})})
}
