package backend

import (
	"context"
	"path/filepath"

	"helix/backend/config"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/safehttp"
	"helix/backend/transcribe"
	"helix/backend/voice"
)

// openVoice builds the recordings with the engines that read them. Nothing leaves the device until the
// person chooses an engine that is a service.
func (b *Backend) openVoice(paths config.Paths, conf config.Config) {
	client := safehttp.New(safehttp.Options{DenyPorts: b.ownPort, MaxRedirects: -1})
	b.closing("voice client", func() error { client.Close(); return nil })
	deepgram := transcribe.NewDeepgram(transcribe.DeepgramOptions{HTTP: client, Key: b.deepgramKey})
	files := safehttp.New(safehttp.Options{DenyPorts: b.ownPort})
	b.closing("model client", func() error { files.Close(); return nil })
	whisper := transcribe.NewWhisper(transcribe.NewModels(transcribe.ModelsOptions{Dir: filepath.Join(paths.Data, "models", "whisper"), HTTP: files, Catalog: transcribe.WhisperModels()}))
	b.Voice = voice.New(b.DB, voice.Options{
		Logger: b.log, Bus: b.Bus, Private: conf.StoragePrivate, Dir: filepath.Join(paths.Cache, "voice"), Recordings: filepath.Join(paths.Data, "recordings"), Callables: b.Callables,
		Microphone: b.o.Microphone, ReleaseReserve: func() error { return b.Storage.ReleaseReserve() }, // created later
		Engines: []transcribe.Engine{transcribe.NewPocketSphinx(), whisper, deepgram},
	})
	b.closing("microphone", b.Voice.Close)
}

// deepgramKey is the caller's secret, or the key in the environment.
func (b *Backend) deepgramKey(ctx context.Context) (string, error) {
	key, err := b.Secrets.Value(ctx, transcribe.DeepgramSecret)
	if fault.Is(err, fault.NotFound) {
		value, _ := b.Config.Env("DEEPGRAM_API_KEY")
		return value, nil
	}
	return string(key), err
}

// audioURL signs an address for the sound of a recording.
func (b *Backend) audioURL(ctx context.Context, p voice.AudioURLParams) (gateway.BlobURL, error) {
	sum, kind, err := b.Voice.Sound(ctx, p)
	if err != nil {
		return gateway.BlobURL{}, err
	}
	b.downloads.Add(ctx, sum, kind)
	return b.Gateway.BlobsURL(ctx, gateway.BlobParams{SHA256: sum})
}
