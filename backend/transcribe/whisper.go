package transcribe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"helix/backend/fault"
)

// whisperPrograms are the names of whisper.cpp's command-line program.
var whisperPrograms = []string{"whisper-cli", "whisper-cpp"}

// whisperSource is a fixed version of the models that whisper.cpp's authors publish.
const whisperSource = "https://huggingface.co/ggerganov/whisper.cpp/resolve/5359861c739e955e79d9a303bcbc70fb988958b1/ggml-"

// WhisperModels is the catalog of models for Whisper, best last. Those that end in .en support only
// English.
func WhisperModels() []Model {
	out := []Model{
		{ID: "tiny.en", Size: 77_704_715, SHA256: "921e4cf8686fdd993dcd081a5da5b6c365bfde1162e72b08d75ac75289920b1f"},
		{ID: "tiny", Size: 77_691_713, SHA256: "be07e048e1e599ad46341c8d2a135645097a538221678b7acdd1b1919c6e1b21"},
		{ID: "base.en", Size: 147_964_211, SHA256: "a03779c86df3323075f5e796cb2ce5029f00ec8869eee3fdfb897afe36c6d002"},
		{ID: "base", Size: 147_951_465, SHA256: "60ed5bc3dd14eea856493d334349b405782ddcaf0028d4b5df4088345fba2efe"},
		{ID: "small.en", Size: 487_614_201, SHA256: "c6138d6d58ecc8322097e0f987c32f1be8bb0a18532a3f88f734d1bbf9c41e5d"},
		{ID: "small", Size: 487_601_967, SHA256: "1be3a9b2063867b937e64e2ec7483364a79917e157fa98c5d94b5c1fffea987b"},
		{ID: "large-v3-turbo", Size: 1_624_555_275, SHA256: "1fc70f774d38eb169993ac391eea357ef47c88757ef72ee5943879b7e8e2bc69"},
	}
	for i := range out {
		out[i].URL = whisperSource + out[i].ID + ".bin"
	}
	return out
}

// Whisper runs whisper.cpp as a child process with a downloaded model.
type Whisper struct {
	program string // path; if empty, found in PATH
	models  *Models
}

// NewWhisper returns an engine that uses the system's whisper.cpp.
func NewWhisper(models *Models) *Whisper { return &Whisper{models: models} }

// Models returns the models of the engine.
func (w *Whisper) Models() *Models { return w.models }

func (w *Whisper) find() (program string, err error) {
	if w.program != "" {
		return w.program, nil
	}
	for _, name := range whisperPrograms {
		if program, err = exec.LookPath(name); err == nil {
			break
		}
	}
	return program, err
}

// Info implements Engine. Models lists those that are installed.
func (w *Whisper) Info(context.Context) Info {
	i := Info{ID: "whispercpp", Name: "whisper.cpp", Local: true, WordTimes: true, Languages: []string{}, Models: w.models.Installed(), Downloads: w.models.List()}
	_, err := w.find()
	switch {
	case err != nil:
		i.Reason = "whisper.cpp is not installed. Install it so that whisper-cli is in PATH."
	case len(i.Models) == 0:
		i.Reason = "No model is installed. Install one with: helix voice models install base"
	default:
		i.Available = true
	}
	return i
}

// Transcribe implements Engine. Without a model in o it uses the best installed one that supports
// the language.
func (w *Whisper) Transcribe(ctx context.Context, a Audio, o Options) (t Transcript, err error) {
	t = Transcript{Language: o.Language, Model: o.Model, Words: []Word{}}
	lang := language(o.Language)
	if t.Model == "" {
		for _, id := range w.models.Installed() {
			if lang == "en" || !strings.HasSuffix(id, ".en") {
				t.Model = id
			}
		}
	}
	info := w.Info(ctx)
	program, err := w.find()
	switch {
	case err != nil || len(info.Models) == 0:
		return t, failure(Missing, fault.Unavailablef("%s", info.Reason).WithCause(err))
	case t.Model == "" || lang != "" && lang != "en" && strings.HasSuffix(t.Model, ".en"):
		return t, failure(Refused, fault.Invalidf("The installed model only supports English, not %.20s. Install another one with: helix voice models install base", o.Language))
	}
	model, err := w.models.File(ctx, t.Model)
	if err != nil {
		return t, err
	}
	if len(a.Speech) == 0 { // otherwise it invents text for silence
		t.Language = cmp.Or(t.Language, "en")
		return t, nil
	}
	if _, err := os.Stat(a.Path); err != nil { // the program would only print that
		return t, fmt.Errorf("recording for whisper.cpp: %w", err)
	}
	dir, err := os.MkdirTemp("", "helix-whisper-")
	if err != nil {
		return t, fmt.Errorf("folder for whisper.cpp: %w", err)
	}
	defer os.RemoveAll(dir)
	result := filepath.Join(dir, "result")
	// A line per word, without texts such as [music].
	if err := runProgram(ctx, "whisper.cpp", program, dir, "--model", model, "--file", a.Path, "--language", cmp.Or(lang, "auto"), "--threads", strconv.Itoa(min(4, runtime.NumCPU())),
		"--max-len", "1", "--split-on-word", "--suppress-nst", "--no-prints", "--output-json-full", "--output-file", result); err != nil {
		return t, err
	}
	text, err := os.ReadFile(result + ".json")
	if err != nil {
		return t, failure(Failed, fault.Unavailablef("whisper.cpp returned no result.").WithCause(err))
	}
	var r whisperResult
	if err := json.Unmarshal(text, &r); err != nil {
		return t, failure(Failed, fault.Unavailablef("Couldn't read the result of whisper.cpp.").WithCause(err))
	}
	t.Language = cmp.Or(o.Language, r.Result.Language)
	t.Words, t.Confidence = r.words(a.Duration.Milliseconds())
	t.Text = join(t.Words)
	return t, nil
}

// whisperResult is the needed part of a file of --output-json-full.
type whisperResult struct {
	Result struct {
		Language string `json:"language"`
	} `json:"result"`
	Transcription []struct {
		Text    string `json:"text"`
		Offsets struct {
			From int64 `json:"from"` // ms
			To   int64 `json:"to"`
		} `json:"offsets"`
		Tokens []struct {
			Text string  `json:"text"`
			P    float64 `json:"p"`
		} `json:"tokens"`
	} `json:"transcription"`
}

// words returns the words of a recording of length ms, and their mean confidence. Lines with several
// words share their time equally.
func (r *whisperResult) words(length int64) (out []Word, confidence float64) {
	out = []Word{}
	last := int64(0)
	for _, s := range r.Transcription {
		sum, n := 0.0, 0
		for _, t := range s.Tokens {
			if !strings.HasPrefix(t.Text, "[_") { // marks of the model, such as [_BEG_]
				sum, n = sum+min(max(t.P, 0), 1), n+1
			}
		}
		from := min(max(s.Offsets.From, last), length)
		to := min(max(s.Offsets.To, from), length)
		texts := strings.Fields(s.Text)
		for i, text := range texts {
			w := Word{Text: text, StartMs: from + (to-from)*int64(i)/int64(len(texts)), EndMs: from + (to-from)*int64(i+1)/int64(len(texts))}
			if n > 0 {
				w.Confidence = sum / float64(n)
			}
			confidence += w.Confidence
			out = append(out, w)
			last = w.StartMs
		}
	}
	if len(out) > 0 {
		confidence /= float64(len(out))
	}
	return out, confidence
}
