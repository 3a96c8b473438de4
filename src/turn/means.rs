//! What turns work with, and the loop that begins them.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bus::Bus;
use crate::channels::Channels;
use crate::conversation::actions::Actions;
use crate::conversation::asks::Asking;
use crate::conversation::transcript;
use crate::people::Role;
use crate::provider::{Models, Provider};
use crate::sandbox::CageState;
use crate::secret::Redactor;
use crate::store::StoreError;
use crate::tasks::heartbeat::Heart;
use crate::tasks::schedule::{Bell, Clock, Commands, Grounds};
use crate::tools::ToolSet;
use crate::trust::instruction_watch::Oversight;
use crate::turn::draft_rate::Paces;
use crate::types::event::Events;
use crate::types::message::{Address, ChannelName, Sender};
use crate::types::origin::Origin;
use crate::types::session::{Finish, QueueMode, Session, Settings};
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
    pub(crate) fn now(&self) -> DateTime<Tz> {
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

impl Means {
    /// Who answers in a conversation with these settings.
    pub(crate) fn provider_for(&self, settings: &Settings) -> Arc<dyn Provider> {
        let chosen = settings.model.as_deref().and_then(|name| self.models.chain(name));
        chosen.unwrap_or_else(|| Arc::clone(&self.provider))
    }
}

/// The open session of an origin, from the store.
pub(crate) async fn load(
    means: &Means,
    origin: impl Into<Origin>,
) -> Result<Option<Session>, StoreError> {
    let origin = origin.into();
    means.bus.store.read(move |store| transcript::open_session(store, &origin)).await
}

/// The role of somebody who wrote at an address.
pub(crate) async fn role_of(
    means: &Means,
    at: &Address,
    sender: &Sender,
) -> Result<Role, StoreError> {
    role_on(means, &at.channel, sender).await
}

/// The role of somebody who is known on a channel. Somebody who was shut out since they wrote may do the
/// least.
pub(crate) async fn role_on(
    means: &Means,
    channel: &ChannelName,
    sender: &Sender,
) -> Result<Role, StoreError> {
    let (people, channel, sender) = (means.bus.people.clone(), channel.clone(), sender.id.clone());
    let role = means.bus.store.read(move |store| people.role_of(store, &channel, &sender)).await?;
    Ok(role.unwrap_or(Role::Guest))
}
