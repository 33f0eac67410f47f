package backend

import (
	"helix/backend/gateway"
	"helix/backend/voice"
)

func registerVoice(b *Backend, a *gateway.API) {
	s := b.Voice
	gateway.Handle(a, "voice.devices", gateway.Read, s.Devices)
	gateway.Handle(a, "voice.start", gateway.Write, s.Start)
	gateway.Handle(a, "voice.stop", gateway.Write, s.Stop)
	gateway.Handle(a, "voice.pause", gateway.Write, s.Pause)
	gateway.Handle(a, "voice.resume", gateway.Write, s.Resume)
	gateway.Handle(a, "voice.cancel", gateway.Write, s.Cancel)
	gateway.Handle(a, "voice.undo_cancel", gateway.Write, s.UndoCancel)
	gateway.Handle(a, "voice.toggle", gateway.Write, s.Toggle)
	gateway.Handle(a, "voice.status", gateway.Read, s.Status)
	gateway.Handle(a, "voice.list_commands", gateway.Read, s.ListCommands)
	gateway.Handle(a, "voice.create_command", gateway.Write, s.CreateCommand)
	gateway.Handle(a, "voice.update_command", gateway.Write, s.UpdateCommand)
	gateway.Handle(a, "voice.delete_command", gateway.Write, s.DeleteCommand)
	gateway.Handle(a, "voice.test_command", gateway.Read, s.TestCommand)
	gateway.Handle(a, "voice.confirm", gateway.Write, s.Confirm)
	gateway.Handle(a, "voice.process", gateway.Write, uploadOnce(b, func(p voice.ProcessParams) (string, bool) { return p.Path, true }, pathParam(b, false, func(p *voice.ProcessParams) *string { return &p.Path }, s.Process)), gateway.DocumentedBy(s.Process), gateway.Costly(), gateway.Deadline(hour))
	gateway.Handle(a, "voice.transcribe", gateway.Write, s.Transcribe, gateway.Costly())
	gateway.Handle(a, "voice.upload_memo", gateway.Write, uploadOnce(b, func(p voice.UploadParams) (string, bool) { return p.Path, true }, pathParam(b, false, func(p *voice.UploadParams) *string { return &p.Path }, s.UploadMemo)), gateway.DocumentedBy(s.UploadMemo), gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "voice.list_memos", gateway.Read, s.ListMemos)
	gateway.Handle(a, "voice.get_memo", gateway.Read, s.GetMemo)
	gateway.Handle(a, "voice.update_memo", gateway.Write, s.UpdateMemo)
	gateway.Handle(a, "voice.delete_memo", gateway.Write, s.DeleteMemo)
	gateway.Handle(a, "voice.restore_memo", gateway.Write, s.RestoreMemo)
	gateway.Handle(a, "voice.get_transcript", gateway.Read, s.GetTranscript)
	gateway.Handle(a, "voice.edit_transcript", gateway.Write, s.EditTranscript)
	gateway.Handle(a, "voice.search_transcripts", gateway.Read, s.SearchTranscripts)
	gateway.Handle(a, "voice.waveform", gateway.Read, s.Waveform, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "voice.audio_url", gateway.Read, b.audioURL, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "voice.queue", gateway.Read, s.Queue)
	gateway.Handle(a, "voice.retry", gateway.Write, s.Retry)
	gateway.Handle(a, "voice.skip", gateway.Write, s.Skip)
	gateway.Handle(a, "voice.engines", gateway.Read, s.Engines)
	gateway.Handle(a, "voice.install_model", gateway.Admin, s.InstallModel, gateway.Deadline(12*hour))
	gateway.Handle(a, "voice.remove_model", gateway.Admin, s.RemoveModel)
	gateway.Handle(a, "voice.get_settings", gateway.Read, s.Settings)
	gateway.Handle(a, "voice.update_settings", gateway.Write, s.UpdateSettings)

	gateway.Forward[voice.LevelChanged](a, "voice.level", gateway.Transient())
	gateway.Forward[voice.PartialHeard](a, "voice.partial", gateway.Transient())
	gateway.Forward[voice.ModelProgress](a, "voice.model_progress", gateway.Transient())
	gateway.Forward[voice.StateChanged](a, "voice.state")
	gateway.Forward[voice.CommandHeard](a, "voice.command")
	gateway.Forward[voice.Transcribed](a, "voice.transcript")
	gateway.Forward[voice.QueueChanged](a, "voice.queue")
}
