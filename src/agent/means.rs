//! What turns work with, and the loop that begins them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Paces;
use crate::actions::Actions;
use crate::asks::Asking;
use crate::bus::Bus;
use crate::channels::Channels;
use crate::event::Events;
use crate::heartbeat::Heart;
use crate::oversight::Oversight;
use crate::provider::{Models, Provider};
use crate::sandbox::CageState;
use crate::schedule::{Bell, Clock, Commands, Grounds};
use crate::secret::Redactor;
use crate::session::{Finish, QueueMode};
use crate::tools::ToolSet;
use crate::workspace::Workspace;

/// What turns work with.
pub struct Means {
    pub bus: Bus,
    pub channels: Channels,
    /// Who answers where nobody chose.
    pub provider: Arc<dyn Provider>,
    /// Who sums up what was said long ago.
    pub summariser: Arc<dyn Provider>,
    /// From whom a conversation can choose.
    pub models: Models,
    /// What becomes of what is said meanwhile, where nobody chose.
    pub queue: QueueMode,
    pub tools: ToolSet,
    pub workspace: Workspace,
    pub actions: Actions,
    /// Tells the owner what was changed of the rules.
    pub oversight: Oversight,
    pub events: Events,
    pub paces: Paces,
    /// Drafts that are on their way to a platform, or being taken away there, whatever becomes of the turn.
    pub drafts: TaskTracker,
    /// What ends a turn of a conversation.
    pub finish: Finish,
    pub steps_max: usize,
    pub subagent_steps_max: usize,
    /// What people are asked before it is done.
    pub asking: Asking,
    pub heart: Heart,
    /// How the shell is.
    pub shell: CageState,
    /// How jobs have commands run; none where they have not.
    pub commands: Option<Commands>,
    /// The owner's, by which jobs are due and prompts tell the time.
    pub zone: Tz,
    /// What it knows is shown to no model, and leaves in no message.
    pub redactor: Redactor,
    /// Ends the daemon; none where nobody would start it again.
    pub restart: Option<CancellationToken>,
}

impl Means {
    /// The time as the owner's clock shows it.
    pub(super) fn now(&self) -> DateTime<Tz> {
        Utc::now().with_timezone(&self.zone)
    }

    /// Waits until no draft is on its way any more, for so long at most.
    pub async fn drafts_end(&self, within: Duration) {
        self.drafts.close();
        timeout(within, self.drafts.wait()).await.ok();
    }

    /// What jobs are done with.
    pub fn bell(&self, clock: Clock) -> Bell {
        Bell {
            bus: self.bus.clone(),
            grounds: Grounds {
                people: self.bus.people.clone(),
                channels: self.channels.keys().cloned().collect(),
                commands: self.commands.clone(),
                zone: self.zone,
            },
            clock,
            workspace: self.workspace.clone(),
            oversight: self.oversight.clone(),
            redactor: self.redactor.clone(),
        }
    }
}
