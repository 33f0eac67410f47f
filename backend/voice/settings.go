package voice

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio/capture"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/transcribe"
)

var languageTag = regexp.MustCompile(`^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)

const ttsSystem = "system"

// Values of RetainAudio; the third form is days:n.
const (
	retainForever          = "forever"
	retainUntilTranscribed = "until_transcribed"
	retainDays             = "days:"
	maxRetainDays          = 3650
)

func settings(tx *storage.Tx, user uuid.UUID) (s Settings, err error) {
	d := Settings{Provider: "local", Model: "nova-3", Language: "en-US", LocalEngine: "pocketsphinx", Fallback: "queue", TTSProvider: ttsSystem, WakeWord: "hey helix"}
	err = tx.QueryRow(`SELECT coalesce(provider, ''), coalesce(model, ''), coalesce(language, ''), coalesce(local_engine, ''), coalesce(fallback, ''), coalesce(vad_enabled, 1), coalesce(retain_audio, 'forever'),
			coalesce(push_to_talk_key, ''), coalesce(command_confirm_ms, 15000), coalesce(input_device, ''), coalesce(keep_mic_open, 0), coalesce(pre_roll_ms, 0),
			coalesce(denoise, 0), coalesce(denoise_for_cloud, 0), coalesce(trim_silence, 1), coalesce(local_model, ''),
			coalesce(save_transcripts, 1), coalesce(save_audio, 0), coalesce(tts_provider, ''), coalesce(wake_word, '')
		FROM (SELECT ?1 AS caller) LEFT JOIN voice_settings v ON v.user_id = caller AND v.deleted_at IS NULL LEFT JOIN voice_microphones m ON m.user_id = caller`, user).
		Scan(&s.Provider, &s.Model, &s.Language, &s.LocalEngine, &s.Fallback, &s.VADEnabled, &s.RetainAudio, &s.PushToTalkKey, &s.CommandConfirmMs, &s.InputDevice, &s.KeepMicOpen, &s.PreRollMs, &s.Denoise, &s.DenoiseForCloud, &s.TrimSilence, &s.LocalModel, &s.SaveTranscripts, &s.SaveAudio, &s.TTSProvider, &s.WakeWord)
	s.Provider, s.Model, s.Language = cmp.Or(s.Provider, d.Provider), cmp.Or(s.Model, d.Model), cmp.Or(s.Language, d.Language)
	s.LocalEngine, s.Fallback = cmp.Or(s.LocalEngine, d.LocalEngine), cmp.Or(s.Fallback, d.Fallback)
	s.TTSProvider, s.WakeWord = cmp.Or(s.TTSProvider, d.TTSProvider), cmp.Or(s.WakeWord, d.WakeWord)
	return s, err
}

// engine returns the id of the selected engine.
func (s Settings) engine() string {
	if s.Provider == "local" {
		return s.LocalEngine
	}
	return s.Provider
}

// model returns the model that the settings select for an engine; empty: the engine's default.
func (s Settings) model(engine string) string {
	switch engine {
	case "deepgram":
		return s.Model
	case s.LocalEngine:
		return s.LocalModel
	}
	return ""
}

// denoises reports whether an engine gets the sound without noise.
func (s Settings) denoises(local bool) bool { return s.Denoise && (local || s.DenoiseForCloud) }

// Settings returns the caller's settings.
func (s *Service) Settings(ctx context.Context, _ struct{}) (out Settings, err error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (Settings, error) { return settings(tx, identity.UserID(ctx)) })
}

// UpdateSettings changes settings. They apply to later recordings and transcriptions.
func (s *Service) UpdateSettings(ctx context.Context, p SettingsParams) (out Settings, err error) {
	user := identity.UserID(ctx)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		if out, err = settings(tx, user); err != nil {
			return err
		}
		set(&out.Provider, p.Provider)
		set(&out.Model, p.Model)
		set(&out.Language, p.Language)
		set(&out.LocalEngine, p.LocalEngine)
		set(&out.LocalModel, p.LocalModel)
		set(&out.Fallback, p.Fallback)
		set(&out.VADEnabled, p.VADEnabled)
		set(&out.Denoise, p.Denoise)
		set(&out.DenoiseForCloud, p.DenoiseForCloud)
		set(&out.TrimSilence, p.TrimSilence)
		set(&out.RetainAudio, p.RetainAudio)
		set(&out.PushToTalkKey, p.PushToTalkKey)
		set(&out.CommandConfirmMs, p.CommandConfirmMs)
		set(&out.InputDevice, p.InputDevice)
		set(&out.KeepMicOpen, p.KeepMicOpen)
		set(&out.PreRollMs, p.PreRollMs)
		set(&out.SaveTranscripts, p.SaveTranscripts)
		set(&out.SaveAudio, p.SaveAudio)
		set(&out.TTSProvider, p.TTSProvider)
		set(&out.WakeWord, p.WakeWord)
		set(&out.WakeWordEnabled, p.WakeWordEnabled)
		if p.Denoise != nil && *p.Denoise {
			if err := s.noise.Available(); err != nil {
				return fault.In("denoise", err)
			}
		}
		if err := s.check(ctx, out); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO voice_settings (id, user_id, provider, model, language, local_engine, fallback, vad_enabled, retain_audio, push_to_talk_key, command_confirm_ms, created_at, updated_at, denoise, denoise_for_cloud, trim_silence, local_model, save_transcripts, save_audio, tts_provider, wake_word)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
			ON CONFLICT (user_id) DO UPDATE SET provider = excluded.provider, model = excluded.model, language = excluded.language, local_engine = excluded.local_engine, fallback = excluded.fallback,
				vad_enabled = excluded.vad_enabled, retain_audio = excluded.retain_audio, push_to_talk_key = excluded.push_to_talk_key, command_confirm_ms = excluded.command_confirm_ms,
				denoise = excluded.denoise, denoise_for_cloud = excluded.denoise_for_cloud, trim_silence = excluded.trim_silence, local_model = excluded.local_model,
				save_transcripts = excluded.save_transcripts, save_audio = excluded.save_audio, tts_provider = excluded.tts_provider, wake_word = excluded.wake_word, updated_at = excluded.updated_at, deleted_at = NULL`,
			uuid.NewSHA1(s.db.IDSpace(user), []byte("voice settings")), user, out.Provider, out.Model, out.Language, out.LocalEngine, out.Fallback, out.VADEnabled, out.RetainAudio, out.PushToTalkKey, out.CommandConfirmMs, tx.Now,
			out.Denoise, out.DenoiseForCloud, out.TrimSilence, out.LocalModel, out.SaveTranscripts, out.SaveAudio, out.TTSProvider, out.WakeWord); err != nil {
			return err
		}
		if err := shareSound(tx, user, out.SaveAudio); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO voice_microphones (user_id, input_device, keep_mic_open, pre_roll_ms, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
			ON CONFLICT (user_id) DO UPDATE SET input_device = excluded.input_device, keep_mic_open = excluded.keep_mic_open, pre_roll_ms = excluded.pre_roll_ms, updated_at = excluded.updated_at`,
			user, out.InputDevice, out.KeepMicOpen, out.PreRollMs, tx.Now)
		return err
	})
	if err == nil && (p.KeepMicOpen != nil || p.InputDevice != nil) {
		s.listen(ctx, out)
	}
	return out, err
}

// listen opens the microphone if the settings say that it stays open, and closes it otherwise.
func (s *Service) listen(ctx context.Context, c Settings) {
	if err := s.mic.rec.Listen(c.InputDevice, c.KeepMicOpen); err != nil {
		s.o.Logger.Warn("open the microphone", "err", err)
	}
	state := StateIdle
	if s.mic.rec.State().Open {
		state = StateListening
	}
	if _, err := s.active(ctx, nil); err != nil { // no recording, whose state counts more
		s.stateChanged(ctx, state, uuid.Nil)
	}
}

func (s *Service) check(ctx context.Context, c Settings) error {
	local := s.engine(c.LocalEngine)
	wake := words(c.WakeWord)
	_, known := retention(c.RetainAudio)
	switch {
	case c.Provider != "local" && c.Provider != "deepgram":
		return fault.InvalidField("provider", fault.CodeRange, "The provider must be local or deepgram.")
	case len(c.Model) == 0 || len(c.Model) > 64:
		return fault.InvalidField("model", fault.CodeRange, "The model has 1 to 64 characters.")
	case !languageTag.MatchString(c.Language):
		return fault.InvalidField("language", fault.CodeInvalid, "The language must be a tag such as en-US.")
	case local == nil || !local.Info(ctx).Local:
		return fault.InvalidField("localEngine", fault.CodeRange, "There is no local engine %.40q. List the engines with: helix voice models", c.LocalEngine)
	case c.LocalModel != "" && !slices.ContainsFunc(local.Info(ctx).Downloads, func(m transcribe.ModelState) bool { return m.ID == c.LocalModel }):
		return fault.InvalidField("localModel", fault.CodeRange, "The engine %s has no model %.40q. List the models with: helix voice models", c.LocalEngine, c.LocalModel)
	case c.Fallback != "queue" && c.Fallback != "local":
		return fault.InvalidField("fallback", fault.CodeRange, "The fallback must be queue or local.")
	case !known:
		return fault.InvalidField("retainAudio", fault.CodeRange, "The retention of audio must be forever, until_transcribed or days: and a number of 1 to %d.", maxRetainDays)
	case len(c.PushToTalkKey) > 64:
		return fault.InvalidField("pushToTalkKey", fault.CodeRange, "The push-to-talk key has at most 64 bytes.")
	case c.CommandConfirmMs < 3000 || c.CommandConfirmMs > 120_000:
		return fault.InvalidField("commandConfirmMs", fault.CodeRange, "The time to confirm a command must be 3 to 120 seconds.")
	case len(c.InputDevice) > 1024:
		return fault.InvalidField("inputDevice", fault.CodeRange, "The input device is the id of a microphone.")
	case c.PreRollMs < 0 || c.PreRollMs > capture.MaxPreRoll.Milliseconds():
		return fault.InvalidField("preRollMs", fault.CodeRange, "The pre-roll must be 0 to %d ms.", capture.MaxPreRoll.Milliseconds())
	case c.PreRollMs > 0 && !c.KeepMicOpen:
		return fault.InvalidField("preRollMs", fault.CodeInvalid, "The pre-roll needs the microphone to stay open.")
	case c.TTSProvider != ttsSystem && c.TTSProvider != "none":
		return fault.InvalidField("ttsProvider", fault.CodeRange, "The voice that reads aloud must be system or none.")
	case len(wake) == 0 || len(wake) > 4 || len(c.WakeWord) > 64:
		return fault.InvalidField("wakeWord", fault.CodeRange, "The wake word has 1 to 4 words.")
	case c.WakeWordEnabled:
		return fault.Unavailablef("Helix can't listen for a wake word yet. Hold the push-to-talk key, or bind helix voice toggle to a key of your desktop.")
	}
	return nil
}

// retention returns how long the sound of a transcribed recording is kept; 0: forever, and a negative
// value: not at all. ok is false for an invalid setting.
func retention(setting string) (age time.Duration, ok bool) {
	switch setting {
	case retainForever:
		return 0, true
	case retainUntilTranscribed:
		return -1, true
	}
	n, err := strconv.Atoi(strings.TrimPrefix(setting, retainDays))
	if err != nil || !strings.HasPrefix(setting, retainDays) || n < 1 || n > maxRetainDays {
		return 0, false
	}
	return time.Duration(n) * 24 * time.Hour, true
}
