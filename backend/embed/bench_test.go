package embed

import (
	"testing"
)

// BenchmarkEmbed embeds one sentence of 15 words at a time.
func BenchmarkEmbed(b *testing.B) {
	m := model(b)
	text := []string{"We talked about the small restaurant near the river before she moved to the city."}
	for b.Loop() {
		if _, err := m.Embed(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(m.Tokens(text[0]))), "pieces")
}
