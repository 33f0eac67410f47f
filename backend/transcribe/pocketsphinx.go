package transcribe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"helix/backend/audio"
	"helix/backend/fault"
)

const (
	sphinxProgram = "pocketsphinx_batch"
	sphinxModel   = "/usr/share/pocketsphinx/model/en-us" // installed by the package pocketsphinx-en-us
	sphinxLongest = 15_000                                // longest utterance in ms; the cost of the search grows with its length
	wavHeader     = 44
)

// PocketSphinx runs the CMU Sphinx recognizer as a child process. It supports English only.
type PocketSphinx struct {
	program string // path; if empty, found in PATH
	model   string
}

// NewPocketSphinx returns an engine that uses the system's pocketsphinx.
func NewPocketSphinx() *PocketSphinx { return &PocketSphinx{model: sphinxModel} }

func (p *PocketSphinx) find() (program string, err error) {
	if program = p.program; program == "" {
		program, err = exec.LookPath(sphinxProgram)
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(p.model, "en-us", "mdef"))
	}
	return program, err
}

// Info implements Engine.
func (p *PocketSphinx) Info(context.Context) Info {
	i := Info{ID: "pocketsphinx", Name: "PocketSphinx", Local: true, WordTimes: true, Languages: []string{"en-US"}, Models: []string{"en-us"}, Available: true}
	if _, err := p.find(); err != nil {
		i.Available, i.Reason = false, "PocketSphinx is not installed. Install the packages pocketsphinx and pocketsphinx-en-us."
	}
	return i
}

// Transcribe implements Engine. It recognizes each span with speech separately.
func (p *PocketSphinx) Transcribe(ctx context.Context, a Audio, o Options) (t Transcript, err error) {
	t = Transcript{Language: "en-US", Model: "en-us", Words: []Word{}}
	if o.Language != "" && language(o.Language) != "en" {
		return t, failure(Refused, fault.Invalidf("PocketSphinx only supports English, not %.20s. Choose another engine.", o.Language))
	}
	if o.Model != "" && o.Model != t.Model {
		return t, failure(Refused, fault.Invalidf("PocketSphinx has no model %.40q.", o.Model))
	}
	program, err := p.find()
	if err != nil {
		return t, failure(Missing, fault.Unavailablef("%s", p.Info(ctx).Reason).WithCause(err))
	}
	parts := utterances(a.Speech)
	if len(parts) == 0 {
		return t, nil
	}
	if _, err := os.Stat(a.Path); err != nil { // the program would silently skip a missing file
		return t, fmt.Errorf("recording for the recognizer: %w", err)
	}
	dir, err := os.MkdirTemp("", "helix-sphinx-")
	if err != nil {
		return t, fmt.Errorf("folder for the recognizer: %w", err)
	}
	defer os.RemoveAll(dir)
	var list bytes.Buffer
	ext := filepath.Ext(a.Path)
	for i, s := range parts {
		fmt.Fprintf(&list, "%s %d %d %d\n", strings.TrimSuffix(filepath.Base(a.Path), ext), s.StartMs/10, s.EndMs/10, i)
	}
	files := filepath.Join(dir, "list")
	if err := os.WriteFile(files, list.Bytes(), 0o600); err != nil {
		return t, fmt.Errorf("list for the recognizer: %w", err)
	}
	words := filepath.Join(dir, "words")
	if err := runProgram(ctx, "PocketSphinx", program, dir, "-hmm", filepath.Join(p.model, "en-us"), "-lm", filepath.Join(p.model, "en-us.lm.bin"), "-dict", filepath.Join(p.model, "cmudict-en-us.dict"),
		"-ctl", files, "-cepdir", filepath.Dir(a.Path), "-cepext", ext, "-adcin", "yes", "-adchdr", strconv.Itoa(wavHeader), "-hypseg", words, "-logfn", os.DevNull); err != nil {
		return t, err
	}
	found, err := os.Open(words)
	if err != nil {
		return t, failure(Failed, fault.Unavailablef("PocketSphinx returned no result.").WithCause(err))
	}
	defer found.Close()
	in := bufio.NewScanner(found)
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		list, err := sphinxWords(in.Text(), parts)
		if err != nil {
			return t, failure(Failed, fault.Unavailablef("Couldn't read PocketSphinx's result.").WithCause(err))
		}
		t.Words = append(t.Words, list...)
	}
	t.Text = join(t.Words)
	return t, in.Err()
}

func join(words []Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return strings.Join(texts, " ")
}

// utterances splits long spans with speech into shorter ones.
func utterances(speech []audio.Span) (out []audio.Span) {
	for _, s := range speech {
		n := (s.EndMs - s.StartMs + sphinxLongest - 1) / sphinxLongest
		for i := range n {
			out = append(out, audio.Span{StartMs: s.StartMs + (s.EndMs-s.StartMs)*i/n, EndMs: s.StartMs + (s.EndMs-s.StartMs)*(i+1)/n})
		}
	}
	return out
}

// sphinxWords parses a line of the -hypseg output: the number of the utterance, four letters that
// are each followed by a value, then for each word its first frame, two scores and the word, and
// finally the number of frames. An utterance in which nothing was recognized has no words.
func sphinxWords(line string, parts []audio.Span) (out []Word, err error) {
	f := strings.Fields(line)
	const head = 9 // the number of the utterance, and S, T, A and L with their values
	if len(f) <= head {
		return nil, nil
	}
	n, err := strconv.Atoi(f[0])
	if err != nil || n < 0 || n >= len(parts) || (len(f)-head)%4 != 1 {
		return nil, fmt.Errorf("%d fields, of part %.20q", len(f), f[0])
	}
	f = f[head:]
	at := func(i int) (int64, error) {
		frame, err := strconv.ParseInt(f[i], 10, 32)
		return min(parts[n].StartMs+frame*10, parts[n].EndMs), err
	}
	for i := 0; i+4 < len(f); i += 4 {
		word, _, _ := strings.Cut(f[i+3], "(") // the number in parentheses identifies the pronunciation
		if word == "" || strings.ContainsAny(word[:1], "<[+") {
			continue
		}
		start, err := at(i)
		end, err2 := at(i + 4)
		if err = errors.Join(err, err2); err != nil {
			return nil, err
		}
		out = append(out, Word{Text: word, StartMs: start, EndMs: end})
	}
	return out, nil
}
