//! Stands in for the provider without a model.

use async_trait::async_trait;

use super::{DeltaStream, Provider, ProviderError, Request};

pub struct Rehearsal;

#[async_trait]
impl Provider for Rehearsal {
    fn name(&self) -> &'static str {
        "rehearsal"
    }

    async fn stream<'a>(
        &'a self,
        _request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        Err(ProviderError::Refused("there is no model".into()))
    }
}
