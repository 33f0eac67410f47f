package voice

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"helix/backend/audio"
	"helix/backend/transcribe"
)

// played is a source of samples in memory.
type played struct{ x []float32 }

func (p *played) Read(to []float32) (int, error) {
	if len(p.x) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.x)
	p.x = p.x[n:]
	return n, nil
}

// hearAll returns what PocketSphinx hears in texts that a voice of flite says one after the other.
func hearAll(t *testing.T, voice string, texts []string) []string {
	t.Helper()
	dir := t.TempDir()
	var x []float32
	starts := []int64{}
	for _, text := range texts {
		path := filepath.Join(dir, "said.wav")
		if out, err := exec.Command("flite", "-voice", voice, "-t", text, "-o", path).CombinedOutput(); err != nil {
			t.Fatalf("flite: %v\n%s", err, out)
		}
		said, err := wavSamples(path)
		if err != nil {
			t.Fatal(err)
		}
		starts = append(starts, int64(len(x))*1000/audio.Rate)
		x = append(append(x, said...), make([]float32, audio.Rate)...)
	}
	f, err := os.Create(filepath.Join(dir, "all.wav"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := audio.WriteWAV(f, audio.Rate, &played{x}); err != nil {
		t.Fatal(err)
	}
	d := audio.NewDetector()
	d.Write(x)
	heard, err := transcribe.NewPocketSphinx().Transcribe(t.Context(), transcribe.Audio{Path: f.Name(), Duration: audio.Duration(int64(len(x)), audio.Rate), Speech: d.Speech()}, transcribe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(texts))
	for _, w := range heard.Words {
		i, _ := slices.BinarySearch(starts, w.StartMs+150)
		out[max(0, i-1)] += w.Text + " "
	}
	return out
}

// TestSpokenCommandsAreHeardAndSentencesAreNot says eight commands, of which one may be misheard, and
// sentences that must run nothing.
func TestSpokenCommandsAreHeardAndSentencesAreNot(t *testing.T) {
	t.Parallel()
	p := corpus(t)
	var list []command
	var commands []string
	for i, c := range corpusCommands(t) {
		if slices.Contains([]int{4, 6}, i) { // a reminder and a timer, which some sentences ask for
			continue
		}
		list, commands = append(list, c), append(commands, p.Commands[i].Said[0])
	}
	sentences := slices.Concat(p.NearMisses[:4], p.Sentences)
	least := map[string]int{"rms": 7, "slt": 5}
	if os.Getenv("HELIX_LONG") == "" {
		sentences = sentences[:6]
		delete(least, "slt")
	}
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for voice, want := range least {
		right := 0
		for i, text := range hearAll(t, voice, slices.Concat(commands, sentences)) {
			hits, _ := matchWords(list, words(text), now)
			switch {
			case i < len(commands) && decide(hits) == DecideRun && hits[0].Name == list[i].Name:
				right++
			case i < len(commands):
				t.Logf("%s: %q was heard as %q: %s", voice, commands[i], text, decide(hits))
				if decide(hits) == DecideRun {
					t.Errorf("%s: %q runs %q", voice, commands[i], hits[0].TriggerPhrase)
				}
			case decide(hits) != DecideNone:
				t.Errorf("%s: %q was heard as %q, which runs %q", voice, sentences[i-len(commands)], text, hits[0].TriggerPhrase)
			}
		}
		if right < want {
			t.Errorf("%s: %d of %d commands were heard, want %d", voice, right, len(commands), want)
		}
	}
}
