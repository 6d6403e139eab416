"""Leadership: elections, resignations, handovers and preferred leaders."""
