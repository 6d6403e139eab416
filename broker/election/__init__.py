"""Who leads: elections, resignations, handovers and preferred leaders."""
