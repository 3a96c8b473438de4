//! Reserves the model calls of a turn before they are made, and books them with their results.

use crate::conversation::ledger::{CallCause, Charge, Payer};
use crate::provider::{Completion, ProviderError, Usage};
use crate::turn::error::TurnError;
use crate::turn::run::active::ActiveTurn;
use crate::turn::spending::{Granted, Planned};

impl ActiveTurn<'_> {
    /// Reserves the next call of the turn, whose prompt has an estimated `input` tokens. The inner error explains a
    /// refusal to the person.
    pub(super) async fn reserve_call(
        &mut self,
        input: u64,
    ) -> Result<Result<(), ProviderError>, TurnError> {
        let planned = Planned {
            payer: self.payer,
            provider: self.provider.name(),
            turn: Some(self.turn),
            input,
            output: self.session.persona.tokens_max.map(u64::from),
        };
        let turns = self.turns;
        let granted = turns.spending.reserve(&turns.services.bus, planned).await?;
        Ok(granted.map(|granted| self.granted = granted))
    }

    /// Reserves a summary of texts with an estimated `input` tokens.
    pub(super) async fn reserve_summary(
        &self,
        input: u64,
        output: u64,
    ) -> Result<Result<Granted, ProviderError>, TurnError> {
        let planned = Planned {
            payer: self.summary_payer(),
            provider: self.turns.models.summariser.name(),
            turn: Some(self.turn),
            input,
            output: Some(output),
        };
        Ok(self.turns.spending.reserve(&self.turns.services.bus, planned).await?)
    }

    /// Ends the reservation of a failed call.
    pub(super) async fn release_call(&mut self, error: &ProviderError) -> Result<(), TurnError> {
        let granted = std::mem::take(&mut self.granted);
        let turns = self.turns;
        Ok(turns.spending.failed(&turns.services.bus, &granted, error).await?)
    }

    /// Returns the cost of the running call, and takes its reservation.
    pub(super) fn charge(&mut self, completion: &Completion) -> Charge {
        let granted = std::mem::take(&mut self.granted);
        self.turns.spending.charge(self.payer, &granted, self.provider.name(), completion)
    }

    /// Returns the cost of summaries.
    pub(super) fn summary_charge(&self, granted: &Granted, usage: Usage) -> Charge {
        let name = self.turns.models.summariser.name();
        self.turns.spending.charge_for(self.summary_payer(), granted, name, usage)
    }

    fn summary_payer(&self) -> Payer {
        Payer { cause: CallCause::Compaction, ..self.payer }
    }
}
