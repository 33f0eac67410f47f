package backend

import (
	"helix/backend/gateway"
	"helix/backend/scheduler"
	"helix/backend/skills"
)

func registerComposite(b *Backend, a *gateway.API) {
	s := b.Skills
	gateway.Handle(a, "skills.execute_composite", gateway.Write, s.ExecuteComposite, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.validate_composite", gateway.Read, s.ValidateComposite)
	gateway.Handle(a, "skills.get_metadata", gateway.Read, s.GetMetadata)
	gateway.Alias(a, "skills.get_skill_metadata", "skills.get_metadata")
	gateway.Handle(a, "skills.list_composite", gateway.Read, s.ListComposite)
	gateway.Alias(a, "skills.list_user_skills", "skills.list_composite")
	gateway.Handle(a, "skills.status", gateway.Read, s.Status)
	gateway.Handle(a, "skills.create_composite", gateway.Write, s.CreateComposite)
	gateway.Handle(a, "skills.update_composite", gateway.Write, s.UpdateComposite)
	gateway.Handle(a, "skills.delete_composite", gateway.Write, s.DeleteComposite)
	gateway.Handle(a, "skills.restore_composite", gateway.Write, s.RestoreComposite)
	gateway.Handle(a, "skills.clone_composite", gateway.Write, s.CloneComposite)
	gateway.Handle(a, "skills.search_public", gateway.Read, s.SearchPublic)
	gateway.Handle(a, "skills.catalog", gateway.Read, s.Catalog)
	gateway.Handle(a, "skills.list_versions", gateway.Read, s.ListVersions)
	gateway.Handle(a, "skills.get_version", gateway.Read, s.GetVersion)
	gateway.Handle(a, "skills.diff_versions", gateway.Read, s.DiffVersions)
	gateway.Handle(a, "skills.rollback", gateway.Write, s.Rollback)
	gateway.Handle(a, "skills.export", gateway.Read, s.Export)
	gateway.Handle(a, "skills.import", gateway.Write, s.Import)
	gateway.Handle(a, "skills.preview_rights", gateway.Read, s.PreviewRights)
	gateway.Handle(a, "skills.dry_run", gateway.Write, s.DryRun, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.replay", gateway.Read, s.Replay)
	gateway.Handle(a, "skills.restart", gateway.Write, s.Restart)
	gateway.Handle(a, "skills.cancel", gateway.Write, s.Cancel)
	gateway.Handle(a, "skills.answer", gateway.Approve, s.Answer)
	gateway.Handle(a, "skills.history", gateway.Read, s.History)
	gateway.Handle(a, "skills.get_execution", gateway.Read, s.GetExecution)
	gateway.Handle(a, "skills.document", gateway.Read, s.Document)
	gateway.Handle(a, "skills.events", gateway.Read, s.Events)
	gateway.Handle(a, "skills.evaluate", gateway.Read, s.Evaluate)
	gateway.Handle(a, "skills.pin", gateway.Write, s.Pin)
	gateway.Handle(a, "skills.purge_history", gateway.Admin, s.PurgeHistory)

	gateway.Forward[skills.Changed](a, "skills.changed")
	gateway.Forward[skills.RunEvent](a, "skills.run_event")
}

func registerSchedules(b *Backend, a *gateway.API) {
	s := b.Scheduler
	gateway.Handle(a, "schedules.create", gateway.Write, s.Create)
	gateway.Alias(a, "cron.create", "schedules.create")
	gateway.Alias(a, "cron.add", "schedules.create")
	gateway.Handle(a, "schedules.update", gateway.Write, s.Update)
	gateway.Alias(a, "cron.update", "schedules.update")
	gateway.Handle(a, "schedules.delete", gateway.Write, s.Delete)
	gateway.Alias(a, "cron.remove", "schedules.delete")
	gateway.Handle(a, "schedules.restore", gateway.Write, s.Restore)
	gateway.Handle(a, "schedules.list", gateway.Read, s.List)
	gateway.Alias(a, "cron.list", "schedules.list")
	gateway.Handle(a, "schedules.get", gateway.Read, s.Get)
	gateway.Handle(a, "schedules.pause", gateway.Write, s.Pause)
	gateway.Handle(a, "schedules.resume", gateway.Write, s.Resume)
	gateway.Handle(a, "schedules.pause_all", gateway.Write, s.PauseAll)
	gateway.Handle(a, "schedules.resume_all", gateway.Write, s.ResumeAll)
	gateway.Handle(a, "schedules.run_now", gateway.Write, s.RunNow)
	gateway.Alias(a, "cron.run", "schedules.run_now")
	gateway.Handle(a, "schedules.preview", gateway.Read, s.Preview)
	gateway.Handle(a, "schedules.calendar", gateway.Read, s.Calendar)
	gateway.Handle(a, "schedules.runs", gateway.Read, s.Runs)
	gateway.Alias(a, "cron.runs", "schedules.runs")
	gateway.Handle(a, "schedules.run_output", gateway.Read, s.RunOutput)
	gateway.Handle(a, "schedules.cancel_run", gateway.Write, s.CancelRun)
	gateway.Handle(a, "schedules.status", gateway.Read, s.Status)
	gateway.Alias(a, "cron.status", "schedules.status")
	gateway.Handle(a, "schedules.take_over", gateway.Write, s.TakeOver)
	gateway.Handle(a, "schedules.templates", gateway.Read, s.Templates)
	gateway.Handle(a, "schedules.notices", gateway.Read, s.Notices)
	gateway.Handle(a, "schedules.take_notices", gateway.Write, s.TakeNotices)

	gateway.Forward[scheduler.Changed](a, "schedules.changed")
	gateway.Forward[scheduler.RunEvent](a, "schedules.run_event")
	gateway.Forward[scheduler.Notification](a, "schedules.notification")
}
